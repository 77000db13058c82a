use crate::cancel::CancelToken;
use crate::clocks::NtpServer;
use crate::family::Family;
use crate::host_claim::HostClaimConfig;
use kumade_measurement::MeasurementPlan;
use kumade_net::SocketBinding;
use kumade_units::Span;
use kumade_wire::PresharedKey;

/// What to measure, to which server, and from which source.
#[derive(Debug, Clone)]
pub struct MeasureConfig {
    /// Name or address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Which addresses of the server to use.
    pub family: Family,
    /// What to measure, and how. Its seed is replaced by a random one for each measurement.
    pub plan: MeasurementPlan,
    /// Source address, interface and firewall mark.
    pub binding: SocketBinding,
    /// The pre-shared key of the server.
    pub key: Option<PresharedKey>,
    /// NTP servers that bound the error of this host's clock; of three and more, fewer than half may be wrong.
    pub ntp: Vec<NtpServer>,
    /// Whether to wait for other measurements at this host; none to measure beside them, and unseen by them.
    pub host_claim: Option<HostClaimConfig>,
    /// Maximum time to wait while the server measures other clients, after which the measurement fails.
    pub max_server_wait: Span,
    /// Maximum time of the measurement from its start, after which it fails; none for no limit.
    pub deadline: Option<Span>,
    /// Ends the measurement from another thread.
    pub cancel: CancelToken,
}

impl MeasureConfig {
    /// The default of [`max_server_wait`](Self::max_server_wait).
    pub const DEFAULT_MAX_SERVER_WAIT: Span = Span::from_secs(120);

    /// Delay, capacity and available bandwidth in both directions, with the default method, over UDP or else TCP.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        MeasureConfig {
            host: host.into(),
            port,
            family: Family::Any,
            plan: MeasurementPlan::default(),
            binding: SocketBinding::default(),
            key: None,
            ntp: Vec::new(),
            host_claim: None,
            max_server_wait: MeasureConfig::DEFAULT_MAX_SERVER_WAIT,
            deadline: None,
            cancel: CancelToken::default(),
        }
    }

    /// Changes the plan.
    pub fn with_changed_plan(mut self, change: impl FnOnce(&mut MeasurementPlan)) -> Self {
        change(&mut self.plan);
        self
    }
}
