//! Who else measures at this host: nothing is begun meanwhile, and light probes are marked.

use kumade_units::{Span, Time};

/// Another program that measures for longer is not waited for any more: it hangs, or wants to keep the monitor from measuring.
const MAX_HOST_USE: Span = Span::from_secs(600);

/// What is known of others who measure at this host, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct HostUse {
    /// Who, and since when somebody has without a pause.
    current: Option<(String, Time)>,
    /// For whom nothing is begun.
    waits_for: Option<String>,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostUseChange {
    /// Somebody measures: nothing is to begin.
    Begun(String),
    /// Nobody does any more, or for too long: the monitor's own measurements go on.
    Ended,
}

impl HostUse {
    /// Takes what was seen now. `holder`: who measures, if anybody but the monitor does.
    pub(crate) fn update(&mut self, holder: Option<String>, now: Time) -> Option<HostUseChange> {
        let since = self.current.take().map_or(now, |(_, since)| since);
        self.current = holder.map(|holder| (holder, since));
        let waits_for = self.current.as_ref().filter(|(_, since)| now - *since < MAX_HOST_USE);
        let waits_for = waits_for.map(|(holder, _)| holder.clone());
        if self.waits_for == waits_for {
            return None;
        }
        self.waits_for.clone_from(&waits_for);
        Some(waits_for.map_or(HostUseChange::Ended, HostUseChange::Begun))
    }

    /// Whether anybody else measures, for whatever time.
    pub(crate) fn is_used(&self) -> bool {
        self.current.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn others_are_waited_for_but_not_for_ever() {
        let mut host = HostUse::default();
        let who = |name: &str| Some(name.to_owned());
        assert_eq!(host.update(None, after(0)), None);
        assert_eq!(host.update(who("a"), after(1)), Some(HostUseChange::Begun("a".to_owned())));
        assert_eq!(host.update(who("a"), after(2)), None);
        assert_eq!(host.update(who("b"), after(3)), Some(HostUseChange::Begun("b".to_owned())));
        assert_eq!(host.update(None, after(4)), Some(HostUseChange::Ended));
        assert!(!host.is_used());
        host.update(who("a"), after(10));
        assert_eq!(host.update(who("c"), after(609)), Some(HostUseChange::Begun("c".to_owned())));
        assert_eq!(host.update(who("c"), after(610)), Some(HostUseChange::Ended), "ten minutes without a pause");
        assert!(host.is_used(), "probes are still marked");
        assert_eq!(host.update(who("d"), after(700)), None);
        host.update(None, after(701));
        assert_eq!(host.update(who("d"), after(702)), Some(HostUseChange::Begun("d".to_owned())));
    }
}
