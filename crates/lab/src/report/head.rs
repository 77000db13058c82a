/// What all documents begin with.
pub(crate) struct DocumentHead<'a> {
    pub(crate) experiment: &'a str,
    pub(crate) title: &'a str,
    /// RFC 3339.
    pub(crate) started: &'a str,
    pub(crate) version: &'a str,
}
