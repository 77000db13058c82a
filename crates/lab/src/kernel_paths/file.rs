use super::scenario::KernelPaths;
use crate::accuracy::{BottleneckKind, Transport};
use crate::study::checks::{check_name, check_runs, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario, choose_cases, replace_list};

impl Scenario for KernelPaths {
    const KIND: &'static str = "kernel-paths";
    const ABOUT: &'static str = "experiments on the kernel's shapers";
    const OPTIONS: &'static [&'static str] = &["--transport", "--runs", "--row", "--seed"];
    type File = Self;

    fn from_file(mut file: Self, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.runs = given.runs.unwrap_or(file.runs);
        file.seed = given.seed.unwrap_or(file.seed);
        replace_list(&mut file.transports, &given.transports);
        choose_cases(&mut file.kinds, &given.rows)?;
        check_name(&file.name).and_then(|()| check_runs(file.runs))?;
        reject_if(given.bottleneck.is_some_and(|bottleneck| bottleneck != BottleneckKind::Htb), || {
            "the kernel's shapers are real time; `kumade lab run path-atlas` has such paths on other bottlenecks".into()
        })?;
        reject_if(file.runs == 0 || file.kinds.is_empty() || file.transports.is_empty(), || {
            "with no runs, kinds or transports there is nothing to do; ask for at least one".into()
        })?;
        let unfit = file.transports.iter().find(|transport| !matches!(transport, Transport::Udp | Transport::Rake));
        match unfit {
            Some(unfit) => Err(format!("these paths have no transport `{unfit}`; choose udp or rake")),
            None => Ok(file),
        }
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: None, is_virtual: false }
    }
}
