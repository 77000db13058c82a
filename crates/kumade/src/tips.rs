//! What is typed out of habit from iperf3 or from other commands, answered by what to type here.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

const NO_BULK_CONNECTION_TIP: &str =
    "no TCP connection is filled but at the end with '--load', and nothing of one can be set: 'kumade measure HOST'";
const LIMIT_TRAFFIC_TIP: &str = "it finds the rate by itself, and '--budget-bytes 20mb' limits what is sent";

const CLIENT_DECIDES_TIP: &str = "the client decides that: 'kumade measure HOST'";
const PORT_TIP: &str =
    "the port follows the host or stands alone: 'kumade measure HOST:7273', 'kumade serve --listen 7273'";
const SERVICE_TIP: &str = "as a service: 'systemctl enable --now kumade-serve'";

/// Options, and what to type instead of them in `kumade measure` and in `kumade serve`.
const IPERF3_OPTIONS: &[(&[&str], [&str; 2])] = &[
    (&["-c", "--client"], ["the server needs no option: 'kumade measure HOST'", CLIENT_DECIDES_TIP]),
    (&["-s", "--server"], ["to answer measurements: 'kumade serve'", "that needs no option: 'kumade serve'"]),
    (&["-u", "--udp"], ["it uses UDP where that passes, and '--transport udp' nothing else", CLIENT_DECIDES_TIP]),
    (&["-t", "--time"], ["it ends when the value is known, and '--budget-time 10s' limits it", CLIENT_DECIDES_TIP]),
    (&["-R", "--reverse"], ["from the server to this host: '--direction down'", CLIENT_DECIDES_TIP]),
    (
        &["--bidir", "-d", "--dualtest"],
        ["both directions are measured unless '--direction' says otherwise", CLIENT_DECIDES_TIP],
    ),
    (&["-p", "--port"], [PORT_TIP, PORT_TIP]),
    (&["-J"], ["for programs: '--json'", "a line of JSON for each measurement: '--access-log FILE'"]),
    (&["-i", "--interval"], ["results as they come: '--json-stream'", "measurements as they end: '--access-log FILE'"]),
    (&["-B", "--bind"], ["from an address of this host: '--source ADDRESS'", "at an address: '--listen ADDRESS'"]),
    (
        &["--bind-dev"],
        ["from an interface of this host: '--interface NAME'", "at the interface's address: '--listen ADDRESS'"],
    ),
    (&["-V"], ["more about a measurement: '-v'; the version: 'kumade --version'", "the version: 'kumade --version'"]),
    (&["-b", "--bitrate", "--bandwidth"], [LIMIT_TRAFFIC_TIP, CLIENT_DECIDES_TIP]),
    (&["-n", "--bytes", "-k", "--blockcount"], [LIMIT_TRAFFIC_TIP, CLIENT_DECIDES_TIP]),
    (
        &["--budget"],
        [
            "a limit of bytes or of time: '--budget-bytes 20mb', '--budget-time 5s'",
            "a limit: '--max-bytes', '--max-time'",
        ],
    ),
    (
        &["-P", "--parallel", "-w", "--window", "-C", "--congestion", "-M", "--set-mss", "-N", "--no-delay"],
        [NO_BULK_CONNECTION_TIP, CLIENT_DECIDES_TIP],
    ),
    (&["-l", "--length", "-O", "--omit", "-Z", "--zerocopy"], [NO_BULK_CONNECTION_TIP, CLIENT_DECIDES_TIP]),
    (&["-D", "--daemon"], [SERVICE_TIP, SERVICE_TIP]),
    (
        &["-1", "--one-off"],
        ["it measures once unless '--watch' is given", "it serves until Ctrl-C; for a time: 'timeout 60 kumade serve'"],
    ),
    (&["-f", "--format"], ["each rate has its unit; in bits per second: '--json', '--csv'", CLIENT_DECIDES_TIP]),
    (
        &["-S", "--tos"],
        [
            "delay and loss of packets with a DSCP: 'kumade measure --stamp HOST --dscp ef'; what the path does to DSCPs: '--path'",
            CLIENT_DECIDES_TIP,
        ],
    ),
    (
        &["--logfile"],
        [
            "to a file: 'kumade measure HOST > FILE'",
            "measurements to a file: '--access-log FILE'; its log is standard error",
        ],
    ),
    (&["--get-server-output"], ["what the server receives is in the results anyway", CLIENT_DECIDES_TIP]),
    (&["--cport"], ["the system chooses the port; the address: '--source ADDRESS'", CLIENT_DECIDES_TIP]),
    (
        &["--connect-timeout", "--rcv-timeout", "--snd-timeout"],
        ["a limit of the whole: '--deadline 30s'", "a limit of a client's turn: '--max-time 60s'"],
    ),
];

/// Commands, and what is meant by a word too many.
const WORD_TIPS: &[(&[&str], &str)] = &[
    (
        &["man"],
        "about a command: 'kumade help COMMAND', or 'man kumade-COMMAND' where a package has installed the pages",
    ),
    (&["key", "public"], "it reads the private key from standard input: 'kumade key public < FILE'"),
    (&["link", "set"], "settings are options: '--rate 7mbit', or of one direction \"--up 'rate 7mbit'\""),
];

/// The error, with what to type instead: of each option that iperf3 has and `kumade measure` and `kumade serve` have not, or of a word.
pub fn with_tips(mut error: clap::Error, arguments: &[String]) -> clap::Error {
    let Some(command) = arguments.get(1) else { return error };
    let refused = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(refused)) if error.kind() == ErrorKind::UnknownArgument => refused.clone(),
        _ => return error,
    };
    let typed =
        |options: &[&str]| options.iter().any(|option| refused == *option || arguments.iter().any(|a| a == option));
    let is_meant = |commands: &[&str]| arguments[1..].iter().zip(commands).all(|(typed, command)| typed == command);
    let iperf3_tips = |place: usize| {
        IPERF3_OPTIONS.iter().filter(|(options, _)| typed(options)).map(|(_, tips)| tips[place]).collect::<Vec<_>>()
    };
    let mut tips = match command.as_str() {
        "serve" => iperf3_tips(1),
        command if command == "measure" || command.starts_with('-') => iperf3_tips(0),
        _ if refused.starts_with('-') => Vec::new(),
        _ => WORD_TIPS.iter().filter(|(commands, _)| is_meant(commands)).map(|(_, tip)| *tip).collect(),
    };
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
        // A word with a space in it has `+` there.
        let arguments = line.split(' ').map(|word| word.replace('+', " ")).collect::<Vec<_>>();
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
            // The tips named '--source' and '--json', which the server has not.
            ("kumade serve -B 192.0.2.1", &["'--listen ADDRESS'"]),
            ("kumade serve -J", &["'--access-log FILE'"]),
            ("kumade serve -1", &["until Ctrl-C"]),
            ("kumade serve -t 10", &["'kumade measure HOST'"]),
            ("kumade measure h -f m", &["'--json'"]),
            ("kumade measure h -k 3", &["'--budget-bytes 20mb'"]),
            ("kumade measure h -S 3", &["--dscp ef"]),
            ("kumade measure h --logfile x", &["HOST > FILE"]),
            ("kumade measure h --get-server-output", &["anyway"]),
            ("kumade measure h --cport 33", &["'--source ADDRESS'"]),
            ("kumade man measure", &["'kumade help COMMAND'"]),
            ("kumade key public a.key", &["'kumade key public < FILE'"]),
            ("kumade link set rate+7mbit", &["'--rate 7mbit'", "\"--up 'rate 7mbit'\""]),
        ] {
            let printed = printed(line);
            assert!(tips.iter().all(|tip| printed.contains(tip)), "{line}: {printed}");
            assert!(!printed.contains("as a value"), "{line}: {printed}");
        }
        assert!(!printed("kumade link start a b -t 10").contains("budget"));
        assert!(!printed("kumade measure h --cport 33").contains("similar"));
    }

    /// Each option that a tip names, the command has.
    #[test]
    fn tips_name_options_of_the_command() {
        let command = crate::build_command();
        for (place, name) in ["measure", "serve"].into_iter().enumerate() {
            let named = IPERF3_OPTIONS.iter().map(|(_, tips)| tips[place]).filter(|tip| !tip.contains("kumade "));
            for word in named.flat_map(|tip| tip.split('\'')).filter(|word| word.starts_with("--")) {
                let option = word.trim_start_matches('-').split(' ').next().unwrap();
                let subcommand = command.find_subcommand(name).unwrap();
                let is_known = subcommand.get_arguments().any(|argument| argument.get_long() == Some(option));
                assert!(is_known, "{name} has no --{option}");
            }
        }
    }

    #[test]
    fn what_an_option_takes_for_its_time_may_be_the_host() {
        for option in ["--watch", "--load", "--idle-timeouts"] {
            let printed = printed(&format!("kumade measure {option} 192.0.2.1"));
            assert!(printed.contains("if it is the host, write it before"), "{printed}");
            assert!(!printed.contains("does not begin with a number"), "{printed}");
        }
        let printed = printed("kumade measure http://192.0.2.1");
        assert!(printed.contains("without `http://`"), "{printed}");
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
