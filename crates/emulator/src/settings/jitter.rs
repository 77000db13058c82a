//! Jitter, in the words of users.

use kumade_link::{JitterDistribution, JitterTable};
use std::path::{Path, PathBuf};

/// How the jitter of packets is spread, as it was named.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NamedDistribution {
    pub(super) name: String,
    pub(super) distribution: JitterDistribution,
}

/// From zero to the jitter: what there was before there was a choice.
const ONE_SIDED: &str = "one-sided";
/// From minus the jitter to the jitter.
const UNIFORM: &str = "uniform";

/// Where distributions have the tables of iproute2.
const TABLE_DIRECTORIES: [&str; 3] = ["/usr/lib/tc", "/usr/lib64/tc", "/usr/share/tc"];
/// Debian has them below this, in a directory of its architecture.
const LIBRARIES_DIRECTORY: &str = "/usr/lib";

impl Default for NamedDistribution {
    fn default() -> Self {
        NamedDistribution { name: ONE_SIDED.to_owned(), distribution: JitterDistribution::OneSided }
    }
}

impl NamedDistribution {
    /// Reads a name, or a file of iproute2's form.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let distribution = match text {
            ONE_SIDED => JitterDistribution::OneSided,
            UNIFORM => JitterDistribution::Uniform,
            _ => JitterDistribution::Table(read_table(text)?),
        };
        Ok(NamedDistribution { name: text.to_owned(), distribution })
    }
}

/// Whether a distribution is named by its file.
pub(super) fn is_file_name(text: &str) -> bool {
    text.contains(['/', '.'])
}

fn read_table(text: &str) -> Result<JitterTable, String> {
    let path = if is_file_name(text) { PathBuf::from(text) } else { find_table(text)? };
    let shown = path.display();
    let content =
        kumade_files::read_text(&path).map_err(|error| format!("cannot read the distribution {shown}: {error}"))?;
    JitterTable::parse(&content).map_err(|error| format!("{shown} is no distribution: {error}"))
}

/// The file of a table that iproute2 installs.
fn find_table(name: &str) -> Result<PathBuf, String> {
    let file = format!("{name}.dist");
    let of_architecture = std::fs::read_dir(LIBRARIES_DIRECTORY).into_iter().flatten().flatten();
    let of_architecture = of_architecture.map(|entry| entry.path().join("tc"));
    let directories = TABLE_DIRECTORIES.iter().map(|directory| Path::new(directory).to_owned()).chain(of_architecture);
    directories.map(|directory| directory.join(&file)).find(|path| path.is_file()).ok_or_else(|| {
        format!(
            "there is no distribution `{name}`: give {ONE_SIDED}, {UNIFORM}, the name of a table of iproute2 (normal, pareto, \
             paretonormal, experimental; looked for in {}, and tc below a directory of {LIBRARIES_DIRECTORY}; install iproute2), \
             or a file such as ./my.dist",
            TABLE_DIRECTORIES.join(", ")
        )
    })
}
