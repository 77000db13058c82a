//! Who else measures at this host: nothing is begun meanwhile, and light probes are marked.

use kumade_client::IfHeld;
use kumade_units::{Span, Time};

/// Another program that measures for longer is not waited for any more: it hangs, or wants to keep the monitor from measuring.
const MAX_HOST_USE: Span = Span::from_secs(600);

/// When one program follows the other at once, the monitor's own measurement waits among them from then on, and is not passed by.
const TURN: Span = Span::from_secs(5);

/// What is known of others who measure at this host, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct HostUse {
    current: Option<Use>,
    /// For whom nothing is begun.
    waits_for: Option<String>,
}

#[derive(Debug)]
struct Use {
    holder: String,
    /// Somebody has measured without a pause since then.
    since: Time,
    /// Nothing is begun from then on.
    waits_from: Time,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostUseChange {
    /// Somebody measures: nothing is to begin.
    Begun(String),
    /// Nobody does any more, or for too long, or another one than before: the monitor's own measurements go on.
    Ended,
}

impl HostUse {
    /// Takes what was seen now. `holder`: who measures, if anybody but the monitor does.
    pub(crate) fn update(&mut self, holder: Option<String>, now: Time) -> Option<HostUseChange> {
        self.current = match (self.current.take(), holder) {
            (_, None) => None,
            (None, Some(holder)) => Some(Use { holder, since: now, waits_from: now }),
            (Some(current), Some(holder)) if current.holder == holder => Some(current),
            (Some(current), Some(holder)) => Some(Use { holder, waits_from: now + TURN, ..current }),
        };
        let waits_for = self.current.as_ref().filter(|_| !self.is_too_long(now));
        let waits_for = waits_for.filter(|current| now >= current.waits_from).map(|current| current.holder.clone());
        if self.waits_for == waits_for {
            return None;
        }
        self.waits_for.clone_from(&waits_for);
        Some(waits_for.map_or(HostUseChange::Ended, HostUseChange::Begun))
    }

    /// What a measurement does that begins now and cannot have the host.
    pub(crate) fn if_held(&self, now: Time) -> IfHeld {
        if self.is_too_long(now) { IfHeld::GoOn } else { IfHeld::Fail }
    }

    fn is_too_long(&self, now: Time) -> bool {
        self.current.as_ref().is_some_and(|current| now - current.since >= MAX_HOST_USE)
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
        assert_eq!(host.update(None, after(3)), Some(HostUseChange::Ended));
        assert!(!host.is_used());
        host.update(who("a"), after(10));
        assert_eq!(host.update(who("a"), after(609)), None);
        assert_eq!(host.if_held(after(609)), IfHeld::Fail);
        assert_eq!(host.update(who("a"), after(610)), Some(HostUseChange::Ended), "ten minutes without a pause");
        assert_eq!(host.if_held(after(610)), IfHeld::GoOn);
        assert!(host.is_used(), "probes are still marked");
        assert_eq!(host.update(who("d"), after(700)), None);
        host.update(None, after(701));
        assert_eq!(host.update(who("d"), after(702)), Some(HostUseChange::Begun("d".to_owned())));
    }

    #[test]
    fn where_one_follows_the_other_the_monitor_has_its_turn() {
        let mut host = HostUse::default();
        let who = |name: &str| Some(name.to_owned());
        host.update(who("a"), after(0));
        assert_eq!(host.update(who("b"), after(1)), Some(HostUseChange::Ended));
        assert_eq!(host.update(who("b"), after(5)), None);
        assert_eq!(host.update(who("b"), after(6)), Some(HostUseChange::Begun("b".to_owned())));
    }
}
