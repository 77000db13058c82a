//! The words of scenario files, of the command line and of reports, which are the same.

use crate::error::RunError;
use anyhow::anyhow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An enumeration whose variants are written as the words beside them.
macro_rules! keyword_enums {
    ($(
        $(#[$about:meta])*
        $kind:ident { $($(#[$variant_about:meta])* $variant:ident = $word:literal,)+ }
    )+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum $kind {
            $($(#[$variant_about])* #[serde(rename = $word)] $variant,)+
        }

        impl $kind {
            /// The word for it in scenario files, on the command line and in reports.
            pub fn word(self) -> &'static str {
                match self { $($kind::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl std::str::FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok($kind::$variant),)+
                    _ => Err(format!("choose one of {}", [$($word),+].join(", "))),
                }
            }
        }
    )+};
}

keyword_enums! {
    /// What carries the trains; `auto` leaves the choice to the measurement.
    Transport {
        /// UDP where it passes, else many TCP connections.
        Auto = "auto",
        /// UDP datagrams.
        Udp = "udp",
        /// Many TCP connections.
        Rake = "rake",
        /// One TCP connection.
        Single = "single",
    }

    /// What implements the bottleneck.
    #[derive(Default)]
    BottleneckKind {
        /// The link that this program emulates.
        #[default]
        Emulated = "emulated",
        /// The kernel's hierarchical token bucket, as an outside reference; needs root and `tc`.
        Htb = "htb",
        /// The same link in virtual time: no network is built.
        Virtual = "virtual",
    }

    /// How the packets of cross traffic follow each other.
    CrossKind {
        /// At equal intervals.
        Constant = "constant",
        /// At intervals that differ from equal ones by up to 5 %, at random.
        Jittered = "jittered",
        /// At exponentially distributed intervals.
        Poisson = "poisson",
        /// In bursts at a rate halfway between the mean and the bottleneck's, with pauses between, both of random length.
        OnOff = "on-off",
        /// As one greedy TCP connection (CUBIC) sends them: elastic.
        Tcp = "tcp",
    }

    /// Whether cross traffic is computed or sent.
    CrossSource {
        /// Computed inside the link: it occupies the queue, but no packet exists. Exact, and costs no CPU.
        Link = "link",
        /// Real packets from host to host.
        Packets = "packets",
    }

    /// What a firewall does to a packet.
    FirewallAction {
        /// Refuses it and tells the sender.
        Reject = "reject",
        /// Discards it silently.
        Drop = "drop",
    }

    /// What a firewall tells packets apart by.
    Protocol {
        /// UDP.
        Udp = "udp",
        /// TCP.
        Tcp = "tcp",
    }
}

impl Transport {
    /// Of those that full measurements of the lab's own paths know.
    pub(crate) fn full_measurement_transport(self) -> Result<kumade_probe_train::Transport, RunError> {
        match self {
            Transport::Udp => Ok(kumade_probe_train::Transport::Udp),
            Transport::Rake => Ok(kumade_probe_train::Transport::Rake),
            other => Err(anyhow!("such a path has no transport `{other}`; choose udp or rake")),
        }
        .map_err(RunError::during("measure a path"))
    }
}

impl From<kumade_probe_train::Transport> for Transport {
    fn from(transport: kumade_probe_train::Transport) -> Self {
        match transport {
            kumade_probe_train::Transport::Udp => Transport::Udp,
            kumade_probe_train::Transport::Rake => Transport::Rake,
            kumade_probe_train::Transport::Single => Transport::Single,
        }
    }
}
