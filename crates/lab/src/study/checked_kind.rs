use kumade_netns_testbed::NetworkError;

/// The kind of path that was built last, and what this machine lacks for it.
#[derive(Debug)]
pub struct CheckedKind<K>(Option<(K, Option<String>)>);

impl<K> Default for CheckedKind<K> {
    fn default() -> Self {
        CheckedKind(None)
    }
}

impl<K: PartialEq> CheckedKind<K> {
    /// What this machine lacks for paths of this kind, if it lacks something. Builds one to find out, unless it was the last one; whatever else
    /// is refused is left to its measurement.
    pub(crate) fn missing_requirement<N>(
        &mut self,
        kind: K,
        build: impl FnOnce() -> Result<N, NetworkError>,
    ) -> Option<String> {
        if self.0.as_ref().is_none_or(|(checked, _)| *checked != kind) {
            let missing = match build() {
                Err(NetworkError::NoShaper(error)) => Some(error.to_string()),
                Ok(_) | Err(_) => None,
            };
            self.0 = Some((kind, missing));
        }
        self.0.as_ref()?.1.clone()
    }
}
