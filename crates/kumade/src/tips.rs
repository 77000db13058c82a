//! Options that are typed out of habit from iperf3, answered by what to type here.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

const NO_BULK_CONNECTION_TIP: &str =
    "no TCP connection is filled but at the end with '--load', and nothing of one can be set: 'kumade measure HOST'";
const LIMIT_TRAFFIC_TIP: &str = "it finds the rate by itself, and '--budget-bytes 20mb' limits what is sent";

/// Options, and what to type instead.
const IPERF3_OPTIONS: &[(&[&str], &str)] = &[
    (&["-c", "--client"], "the server needs no option: 'kumade measure HOST'"),
    (&["-s", "--server"], "to answer measurements: 'kumade serve'"),
    (&["-u", "--udp"], "it uses UDP where that passes, and '--transport udp' nothing else"),
    (&["-t", "--time"], "it ends when the value is known, and '--budget-time 10s' limits it"),
    (&["-R", "--reverse"], "from the server to this host: '--direction down'"),
    (&["--bidir", "-d", "--dualtest"], "both directions are measured unless '--direction' says otherwise"),
    (
        &["-p", "--port"],
        "the port follows the host or stands alone: 'kumade measure HOST:7273', 'kumade serve --listen 7273'",
    ),
    (&["-J"], "for programs: '--json'"),
    (&["-i", "--interval"], "results as they come: '--json-stream'"),
    (&["-B", "--bind"], "from an address of this host: '--source ADDRESS'"),
    (&["--bind-dev"], "from an interface of this host: '--interface NAME'"),
    (&["-V"], "more about a measurement: '-v'; the version: 'kumade --version'"),
    (&["-b", "--bitrate", "--bandwidth"], LIMIT_TRAFFIC_TIP),
    (&["-n", "--bytes"], LIMIT_TRAFFIC_TIP),
    (&["--budget"], "a limit of bytes or of time: '--budget-bytes 20mb', '--budget-time 5s'"),
    (
        &["-P", "--parallel", "-w", "--window", "-C", "--congestion", "-M", "--set-mss", "-N", "--no-delay"],
        NO_BULK_CONNECTION_TIP,
    ),
    (&["-l", "--length", "-O", "--omit", "-Z", "--zerocopy"], NO_BULK_CONNECTION_TIP),
    (&["-D", "--daemon"], "as a service: 'systemctl enable --now kumade-serve'"),
];

/// The error, with what to type instead of each option that iperf3 has and `kumade measure` and `kumade serve` have not.
pub fn with_tips(mut error: clap::Error, arguments: &[String]) -> clap::Error {
    let Some(command) = arguments.get(1) else { return error };
    let is_asked = command.starts_with('-') || ["measure", "serve"].contains(&command.as_str());
    if error.kind() != ErrorKind::UnknownArgument || !is_asked {
        return error;
    }
    let refused = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(refused)) => refused.clone(),
        _ => return error,
    };
    let typed =
        |options: &[&str]| options.iter().any(|option| refused == *option || arguments.iter().any(|a| a == option));
    let mut tips = IPERF3_OPTIONS.iter().filter(|(options, _)| typed(options)).map(|(_, tip)| *tip).collect::<Vec<_>>();
    tips.dedup();
    if !tips.is_empty() {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips.into_iter().map(StyledStr::from).collect()));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(line: &str) -> String {
        let arguments = line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let error = crate::build_command().try_get_matches_from(&arguments).unwrap_err();
        with_tips(error, &arguments).to_string()
    }

    #[test]
    fn options_of_iperf3_are_answered_by_what_to_type() {
        for (line, tips) in [
            ("kumade -s", &["'kumade serve'"][..]),
            ("kumade -c h", &["'kumade measure HOST'"]),
            ("kumade measure -c h", &["'kumade measure HOST'"]),
            ("kumade measure -c h -u -t 10 -R", &["HOST", "--transport udp", "--budget-time 10s", "--direction down"]),
            ("kumade measure h -t10", &["--budget-time 10s"]),
            ("kumade measure h --budget 20MB", &["--budget-bytes 20mb"]),
            ("kumade measure h -P 8", &["'--load'"]),
            ("kumade serve -p 7273", &["'kumade serve --listen 7273'"]),
        ] {
            let printed = printed(line);
            assert!(tips.iter().all(|tip| printed.contains(tip)), "{line}: {printed}");
            assert!(!printed.contains("as a value"), "{line}: {printed}");
        }
        assert!(!printed("kumade link start a b -t 10").contains("budget"));
    }

    /// Otherwise a tip would refuse what is right.
    #[test]
    fn no_tip_is_for_an_option_of_the_program() {
        let command = crate::build_command();
        for name in ["measure", "serve"] {
            for argument in command.find_subcommand(name).unwrap().get_arguments() {
                let short = argument.get_short().map(|short| format!("-{short}")).unwrap_or_default();
                let long = argument.get_long().map(|long| format!("--{long}")).unwrap_or_default();
                let known = IPERF3_OPTIONS
                    .iter()
                    .flat_map(|(options, _)| *options)
                    .any(|option| [&short, &long].contains(&&(*option).to_owned()));
                assert!(!known, "{name} has {short} {long}");
            }
        }
    }
}
