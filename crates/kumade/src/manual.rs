//! What the help and the manual pages have beyond the options: examples and exit statuses of each command.

use clap::Command;

/// What one command is told by example.
struct ManualPage {
    /// The command's words behind `kumade`.
    command: &'static str,
    /// Command lines, each with what it does.
    examples: &'static [(&'static str, &'static str)],
    /// Its exit statuses.
    exit_statuses: &'static str,
}

const COMMAND_EXIT_STATUSES: &str = "0 success; 1 failure; 2 invalid usage";
const SERVICE_EXIT_STATUSES: &str = "0 ended by Ctrl-C or SIGTERM; 1 failure; 2 invalid usage";

const PAGES: &[ManualPage] = &[
    ManualPage {
        command: "serve",
        examples: &[
            ("kumade serve", "answer measurements on port 7272, TCP and UDP"),
            ("kumade serve --ports 53,443,5060-5070", "let clients see whether these ports pass as well"),
            ("kumade serve --listen 127.0.0.1:7273", "on another address and port"),
            (
                "kumade serve --clients clients.toml",
                "serve the clients that a file names, each with its own key and quotas",
            ),
            ("kumade serve --stamp", "also reflect STAMP (RFC 8762) on UDP port 862"),
        ],
        exit_statuses: SERVICE_EXIT_STATUSES,
    },
    ManualPage {
        command: "measure",
        examples: &[
            ("kumade measure far.example.net", "both directions; over TCP if a firewall drops UDP"),
            ("kumade measure far.example.net -v", "with all details"),
            ("kumade measure far.example.net --direction down --json", "one direction, as one JSON document"),
            ("kumade measure far.example.net --watch 5min --csv", "every five minutes, as CSV"),
            ("kumade measure far.example.net --prometheus /var/lib/node_exporter/kumade.prom", "as metrics, too"),
            (
                "kumade measure far.example.net --check available=20mbit:,10mbit: --check loss=1%,5%",
                "as a plugin of Nagios or Icinga",
            ),
            (
                "kumade measure far.example.net --path --ports 53,443",
                "which kind of NAT there is, and which ports pass",
            ),
            ("kumade measure far.example.net --idle-timeouts", "after which time firewalls forget idle flows"),
            ("kumade measure --stamp router.example", "delay and loss to any STAMP reflector"),
            (
                "kumade measure --stamp router.example --dscp ef --ecn ect1",
                "also with which DSCP and ECN packets arrive, each way",
            ),
        ],
        exit_statuses: "0 at least one direction has a value or a bound; 1 none has, or failure; 2 invalid usage; with --check 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN",
    },
    ManualPage {
        command: "lab list",
        examples: &[("kumade lab list", "all experiments, what they repeat, and what can be chosen of them")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "lab run",
        examples: &[
            ("kumade lab run rake-firewall", "a path whose firewall passes only TCP"),
            ("kumade lab run rake-accuracy --rate 5mbit --cross 0mbit,2mbit,4mbit", "with another path"),
            ("kumade lab run method-comparison --virtual", "in virtual time, reproducibly"),
            (
                "kumade lab run fair-mix --virtual --shard 3/64 --out sweep",
                "one of 64 parts of the runs; what is in sweep already is not run again",
            ),
            (
                "kumade lab run tunnel-rto --as-published --virtual",
                "over all points of its paper, whose statements are judged",
            ),
            ("kumade lab run monitor-mesh --serve", "the monitor's page, with live data of four sites"),
        ],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "lab merge",
        examples: &[
            ("kumade lab merge sweep", "the report of all parts in a directory"),
            ("kumade lab merge host1/sweep host2/sweep --out report", "of several directories"),
        ],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "lab show",
        examples: &[
            ("kumade lab show rake-accuracy > mine.toml", "a scenario file to begin with"),
            ("kumade lab show fair-mix.csv", "the table that an experiment's file names"),
        ],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "lab compare",
        examples: &[(
            "kumade lab compare reports/fair-wired other",
            "two reports of one experiment, by their directories",
        )],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "link start",
        examples: &[
            ("kumade link start eth1 eth2 --rate 20mbit --delay 25ms --loss 0.1%", "an emulated link"),
            ("kumade link start eth1 eth2 --rate 100mbit --queue fair-share", "a fair queue before an uplink"),
            ("kumade link start eth1 eth2 --rate 100mbit --queue dualpi2", "a queue of low latency for L4S senders"),
            ("kumade link start emu0 emu1 --tun --up 'rate 1mbit' --down 'rate 24mbit'", "between two TUN devices"),
        ],
        exit_statuses: SERVICE_EXIT_STATUSES,
    },
    ManualPage {
        command: "link set",
        examples: &[("kumade link set --rate 5mbit --down 'loss 1%'", "change a link while it runs")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "link show",
        examples: &[
            ("kumade link show", "rates, drops, queueing delay and flows since the start"),
            ("kumade link show --live", "each second on the whole terminal; in a pipe a line for each interval"),
        ],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "link list",
        examples: &[("kumade link list", "a line for each link: name, interfaces, settings")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "link stop",
        examples: &[("kumade link stop --name uplink", "end that link, and leave its interfaces as they were")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "gateway check",
        examples: &[("kumade gateway check gateway.toml", "what a configuration file comes to")],
        exit_statuses: "0 the gateway can start so; 1 the host does not forward packets, or failure; 2 the file is invalid",
    },
    ManualPage {
        command: "gateway status",
        examples: &[
            ("kumade gateway status", "a table"),
            ("kumade gateway status --live", "on the whole terminal, once a second"),
        ],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "monitor",
        examples: &[
            ("kumade monitor --config /etc/kumade/monitor.toml", "monitor what a file names, until Ctrl-C"),
            (
                "kumade monitor --config /etc/kumade/agent.toml",
                "the same for a file that makes this host an agent of a mesh",
            ),
        ],
        exit_statuses: SERVICE_EXIT_STATUSES,
    },
    ManualPage {
        command: "monitor check",
        examples: &[
            ("kumade monitor check monitor.toml", "what it costs, and whether all measurements fit"),
            ("kumade monitor check --notify monitor.toml", "whether those who are told of alerts take a test"),
        ],
        exit_statuses: "0 it can be done; 1 a file cannot be read, or the measurements do not fit; 2 the configuration is invalid",
    },
    ManualPage {
        command: "monitor show",
        examples: &[("kumade monitor show", "how the paths are"), ("kumade monitor show --json", "for programs")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "monitor export",
        examples: &[
            ("kumade monitor export monitor.toml --last 30d", "the measurements of 30 days, as CSV"),
            ("kumade monitor export monitor.toml --what probes --pair campus --json", "probes of a day, by minute"),
        ],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "monitor backup",
        examples: &[("kumade monitor backup monitor.toml copy.db", "a copy while it runs")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "monitor import",
        examples: &[(
            "kumade monitor import psconfig template.json --from ps.example.org",
            "from perfSONAR's template",
        )],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "monitor import psconfig",
        examples: &[
            (
                "kumade monitor import psconfig template.json --from ps.example.org > monitor.toml",
                "what this host of a perfSONAR mesh monitors",
            ),
            (
                "kumade monitor import psconfig template.json --mesh > coordinator.toml",
                "the file of a coordinator of all its hosts",
            ),
        ],
        exit_statuses: "0 success; 1 a file cannot be read, or nothing is left to monitor; 2 the template or the command is invalid",
    },
    ManualPage {
        command: "tunnel check",
        examples: &[("kumade tunnel check tunnel.toml", "whether an end can start so")],
        exit_statuses: "0 the tunnel can start so; 1 a file cannot be read, or the host refuses something; 2 the configuration is invalid",
    },
    ManualPage {
        command: "tunnel listen",
        examples: &[
            ("kumade tunnel listen 443 --key host.key --address 10.77.0.1/24 --peer KEY=10.77.0.2", "carry IP packets"),
            (
                "kumade tunnel listen 443 --key host.key --peer KEY --allow 127.0.0.1:80",
                "carry connections to one port",
            ),
        ],
        exit_statuses: SERVICE_EXIT_STATUSES,
    },
    ManualPage {
        command: "tunnel connect",
        examples: &[
            ("kumade tunnel connect host.example:443 --key my.key --address 10.77.0.2/24 --peer KEY", "IP packets"),
            ("kumade tunnel connect host.example:443 --key my.key --peer KEY --forward 8080:127.0.0.1:80", "one port"),
        ],
        exit_statuses: SERVICE_EXIT_STATUSES,
    },
    ManualPage {
        command: "tunnel status",
        examples: &[("kumade tunnel status", "what a running tunnel does")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "tunnel block",
        examples: &[(
            "kumade tunnel block",
            "before the network comes up, for a host that is to use its tunnel or nothing",
        )],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "tunnel unblock",
        examples: &[("kumade tunnel unblock", "all may leave again")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "key new",
        examples: &[("kumade key new gateway.key", "a private key; prints the public key to tell the other end")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "key private",
        examples: &[("kumade key private --output gateway.key", "a private key")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "key token",
        examples: &[(
            "kumade key token alice --class read >> /etc/kumade/monitor.toml",
            "a token for a monitor's page, shown once; its hash is appended to the file",
        )],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "key public",
        examples: &[("kumade key public < gateway.key", "the public key of a private one")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "key preshared",
        examples: &[("kumade key preshared --output shared.key", "for --key of serve and measure")],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "completions",
        examples: &[(
            "kumade completions bash > /etc/bash_completion.d/kumade",
            "for zsh: > /usr/local/share/zsh/site-functions/_kumade",
        )],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
    ManualPage {
        command: "man",
        examples: &[
            ("kumade man | man -l -", "read the first page"),
            ("kumade man --output /usr/local/share/man/man1", "install all pages, one for each command"),
        ],
        exit_statuses: COMMAND_EXIT_STATUSES,
    },
];

/// The command line with examples and exit statuses.
pub fn with_examples(command: Command) -> Command {
    let is_absent = |page: &ManualPage| {
        let commands = ["serve", "link", "gateway", "tunnel", "monitor", "key token"];
        cfg!(not(target_os = "linux")) && commands.iter().any(|absent| page.command.starts_with(absent))
    };
    PAGES.iter().filter(|page| !is_absent(page)).fold(command, |command, page| {
        let words: Vec<&str> = page.command.split(' ').collect();
        amend_command(command, &words, &page.page_text())
    })
}

fn amend_command(command: Command, words: &[&str], text: &str) -> Command {
    match words {
        [] => command.after_long_help(text.to_owned()),
        [first, rest @ ..] => command.mut_subcommand(*first, |sub| amend_command(sub, rest, text)),
    }
}

impl ManualPage {
    fn page_text(&self) -> String {
        let examples = self.examples.iter().map(|(line, what)| format!("  {line}\n      {what}\n"));
        format!("Examples:\n{}\nExit status: {}", examples.collect::<String>(), self.exit_statuses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build_command;

    /// Finding 8 of the review by a new user: there was one page, without examples.
    #[test]
    fn every_command_has_examples_that_are_valid() {
        let command = build_command();
        for top in command.get_subcommands().filter(|top| !top.is_hide_set()) {
            let leaves: Vec<_> = top.get_subcommands().collect();
            let names = leaves.iter().map(|leaf| format!("{} {}", top.get_name(), leaf.get_name()));
            let names: Vec<_> = if leaves.is_empty() { vec![top.get_name().to_owned()] } else { names.collect() };
            for name in names.iter().filter(|name| !name.contains("help")) {
                assert!(PAGES.iter().any(|page| page.command == name), "`kumade {name}` has no example");
            }
        }
        let key = "00".repeat(32);
        for (line, _) in PAGES.iter().flat_map(|page| page.examples) {
            let line = line.split(['<', '>', '|']).next().unwrap();
            // A quoted value is the only one with spaces.
            let words = line.split('\'').enumerate().flat_map(|(i, part)| match i % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            });
            let words: Vec<String> = words.map(|word| word.replace("KEY", &key)).collect();
            if let Err(error) = command.clone().try_get_matches_from(&words) {
                panic!("{words:?}: {error}");
            }
        }
    }
}
