//! How sending goes.

/// How sending goes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RemoteWriteProgress {
    /// Samples that were stored since the start.
    pub accepted_samples: u64,
    /// Samples that the receiver refused, or that became too old.
    pub refused_samples: u64,
    /// Why nothing can be sent at present.
    pub failure: Option<String>,
    /// Why samples were refused last.
    pub refusal: Option<String>,
}

impl RemoteWriteProgress {
    /// What to tell of a change; none where nothing has changed that matters.
    pub(crate) fn change_since(&self, before: Option<&RemoteWriteProgress>) -> Option<String> {
        let failed_before = before.is_some_and(|before| before.failure.is_some());
        match &self.failure {
            Some(failure) if !failed_before => Some(format!("figures cannot be sent to the other database: {failure}")),
            None if failed_before => Some("figures are sent to the other database again".to_owned()),
            _ => match &self.refusal {
                // Once: the next ones are counted.
                Some(refusal) if before.is_none_or(|before| before.refusal.is_none()) => {
                    Some(format!("the other database refuses figures: {refusal}"))
                }
                _ => None,
            },
        }
    }
}
