/// When runs in virtual time begin: their reports are the same, to the byte, whenever and wherever they are made.
pub(crate) const VIRTUAL_START: &str = "1970-01-01T00:00:00Z";

/// What all documents begin with.
pub(crate) struct DocumentHead<'a> {
    pub(crate) experiment: &'a str,
    pub(crate) title: &'a str,
    /// RFC 3339.
    pub(crate) started: &'a str,
    pub(crate) version: &'a str,
}

impl DocumentHead<'_> {
    /// When it was run, as the page has it.
    pub(crate) fn time(&self) -> String {
        if self.started == VIRTUAL_START { "In virtual time".to_owned() } else { format!("Started {}", self.started) }
    }
}
