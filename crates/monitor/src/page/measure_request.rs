use std::sync::Arc;
use tokio::sync::oneshot;

/// Somebody wants a pair to be measured now.
#[derive(Debug)]
pub(crate) struct MeasureRequest {
    /// The id.
    pub(crate) pair: String,
    pub(crate) who: String,
    /// What it waits for, or why it is not made.
    pub(crate) answer: oneshot::Sender<Result<String, String>>,
}

/// Takes them; what measures nothing drops them.
pub(crate) type MeasureRequests = Arc<dyn Fn(MeasureRequest) + Send + Sync>;
