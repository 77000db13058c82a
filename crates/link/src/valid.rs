use std::ops::Deref;

/// Settings that were checked once, by [`LinkConfig::validate`](crate::LinkConfig::validate) or
/// [`QueueConfig::validate`](crate::queue::QueueConfig::validate). What takes them has nothing to check and cannot fail.
#[derive(Debug, Clone, PartialEq)]
pub struct Valid<C>(pub(crate) C);

impl<C> Deref for Valid<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}
