use crate::accuracy::Transport;
use crate::atlas::PathAtlas;
use crate::study::checks::{check_name, check_runs, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario, replace_list};

impl Scenario for PathAtlas {
    const KIND: &'static str = "path-atlas";
    const ABOUT: &'static str = "experiments on paths of many kinds";
    const OPTIONS: &'static [&'static str] = &["--transport", "--runs", "--kind"];
    type File = Self;

    fn from_file(mut file: Self, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.bottleneck = given.bottleneck.unwrap_or_default();
        file.runs = given.runs.unwrap_or(if file.is_virtual() { file.runs } else { file.real_runs });
        replace_list(&mut file.transports, &given.transports);
        replace_list(&mut file.kinds, &given.kinds);
        check_name(&file.name).and_then(|()| check_runs(file.runs))?;
        reject_if(file.runs == 0 || file.kinds.is_empty() || file.transports.is_empty(), || {
            "with no runs, kinds or transports there is nothing to do; ask for at least one".into()
        })?;
        let unfit = file.transports.iter().find(|transport| !matches!(transport, Transport::Udp | Transport::Rake));
        if let Some(unfit) = unfit {
            return Err(format!("a path of the atlas has no transport `{unfit}`; choose udp or rake"));
        }
        reject_if(!file.has_points(), || {
            match file.is_virtual() {
            true => "no path of these kinds passes these transports; choose others".into(),
            false => "no path of these kinds passes these transports and can be built in real time; choose others, or run them with \
                      --virtual"
                .into(),
        }
        })?;
        Ok(file)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: None, is_virtual: self.is_virtual() }
    }
}
