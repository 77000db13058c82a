use super::sessions::Sessions;
use super::token::{AccessClass, AccessConfig, AccessToken, TokenHash};
use kumade_daemon::{Network, NetworkBudgets};
use kumade_units::{RateLimiter, Span, Time};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Who asks, as far as the request says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Credential<'c> {
    None,
    /// A token.
    Bearer(&'c str),
    /// The secret of a session.
    Session(&'c str),
}

/// Somebody who may see what is monitored, at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visitor {
    /// The token's name, or what the others are.
    pub(crate) name: String,
    pub(crate) class: AccessClass,
    known_by: KnownBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownBy {
    /// Everybody who reaches the page may do that much.
    Nothing,
    Token(TokenHash),
    Session(TokenHash),
}

/// Why somebody may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A token is needed.
    NoToken,
    /// It is not known.
    WrongToken,
    /// Too many wrong ones have come from there: this one was not looked at.
    TooManyAttempts,
}

/// What is noted in the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) who: String,
    pub(super) what: String,
}

/// Decides who may do what.
///
/// **Contract.** Pure: times come in, on a clock that never goes back. Take the notices after each call.
#[derive(Debug)]
pub(super) struct Gate {
    config: AccessConfig,
    sessions: Sessions,
    attempts: NetworkBudgets,
    /// From where each token was used last.
    used_from: BTreeMap<TokenHash, IpAddr>,
    /// Failures that may be noted.
    notice_limit: RateLimiter,
    /// Failures since the last that was noted.
    unnoted: u64,
    notices: Vec<Notice>,
}

/// A wrong token takes this of its network's budget …
const FAILURE_COST: Span = Span::from_secs(6);
/// … so that ten are looked at at once, and ten in each minute after that …
const ATTEMPT_BURST: Span = Span::from_secs(54);
/// … and a right one that begins a session takes this, since that is noted, too.
const LOGIN_COST: Span = Span::from_secs(1);
/// However many networks there are: 60 failures are noted at once, and one in each minute.
const NOTICES_PER_SECOND: f64 = 1.0 / 60.0;
const MAX_NOTICES_AT_ONCE: f64 = 60.0;

impl Visitor {
    /// A browser that is logged in.
    pub(crate) fn is_session(&self) -> bool {
        matches!(self.known_by, KnownBy::Session(_))
    }

    /// Who has shown nothing.
    pub(crate) fn is_anybody(&self) -> bool {
        self.known_by == KnownBy::Nothing
    }
}

impl Gate {
    pub(super) fn new(config: AccessConfig) -> Self {
        Gate {
            config,
            sessions: Sessions::default(),
            attempts: NetworkBudgets::new(ATTEMPT_BURST),
            used_from: BTreeMap::new(),
            notice_limit: RateLimiter::new(NOTICES_PER_SECOND, MAX_NOTICES_AT_ONCE),
            unnoted: 0,
            notices: Vec::new(),
        }
    }

    pub(super) fn config(&self) -> &AccessConfig {
        &self.config
    }

    /// Who has a token that is no longer known is not, either.
    pub(super) fn set_config(&mut self, config: AccessConfig) {
        self.used_from.retain(|hash, _| config.tokens.iter().any(|token| token.hash == *hash));
        self.config = config;
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Who asks.
    pub(super) fn admit(&mut self, credential: Credential<'_>, from: IpAddr, now: Time) -> Result<Visitor, Refusal> {
        match credential {
            Credential::Bearer(token) => {
                let known = self.try_token(token, from, now)?;
                Ok(Visitor { name: known.name, class: known.class, known_by: KnownBy::Token(known.hash) })
            }
            Credential::Session(secret) => {
                let secret = TokenHash::from_token(secret);
                self.session(secret, now).or_else(|| self.anybody()).ok_or(Refusal::NoToken)
            }
            Credential::None => self.anybody().ok_or(Refusal::NoToken),
        }
    }

    /// Whether somebody who was admitted before still is.
    pub(super) fn is_admitted(&self, visitor: &Visitor, now: Time) -> bool {
        match visitor.known_by {
            KnownBy::Nothing => self.anybody().is_some_and(|anybody| anybody.class >= visitor.class),
            KnownBy::Token(token) => self.known_token(&token).is_some_and(|token| token.class >= visitor.class),
            KnownBy::Session(secret) => self.session(secret, now).is_some_and(|present| present.class >= visitor.class),
        }
    }

    /// Begins a session with a token: `secret` is by what the browser will be known.
    pub(super) fn log_in(&mut self, token: &str, secret: &str, from: IpAddr, now: Time) -> Result<(), Refusal> {
        let known = self.try_token(token, from, now)?;
        self.attempts.charge(Network::containing(from), LOGIN_COST, now);
        self.sessions.begin(TokenHash::from_token(secret), known.hash, now);
        self.notices.push(Notice { who: known.name, what: format!("logged in from {from}") });
        Ok(())
    }

    /// Ends a session, if it is one.
    pub(super) fn log_out(&mut self, secret: &str, from: IpAddr, now: Time) {
        let secret = TokenHash::from_token(secret);
        let Some(visitor) = self.session(secret, now) else { return };
        self.sessions.end(&secret);
        self.notices.push(Notice { who: visitor.name, what: format!("logged out from {from}") });
    }

    fn anybody(&self) -> Option<Visitor> {
        let visitor = |name: &str, class| Some(Visitor { name: name.to_owned(), class, known_by: KnownBy::Nothing });
        match &self.config {
            config if config.is_open() => visitor("this host", AccessClass::Admin),
            config if config.is_public => visitor("everybody", AccessClass::Read),
            _ => None,
        }
    }

    fn session(&self, secret: TokenHash, now: Time) -> Option<Visitor> {
        let known = self.known_token(&self.sessions.token(&secret, now)?)?;
        Some(Visitor { name: known.name.clone(), class: known.class, known_by: KnownBy::Session(secret) })
    }

    fn try_token(&mut self, token: &str, from: IpAddr, now: Time) -> Result<AccessToken, Refusal> {
        let (network, hash) = (Network::containing(from), TokenHash::from_token(token));
        // Whoever has shown it there before is not held up by neighbours who guess.
        let is_usual = self.used_from.get(&hash) == Some(&from);
        if self.attempts.is_spent(network, now) && !is_usual {
            return Err(Refusal::TooManyAttempts);
        }
        if let Some(known) = self.known_token(&hash).cloned() {
            self.used_from.insert(hash, from);
            return Ok(known);
        }
        self.attempts.charge(network, FAILURE_COST, now);
        self.note_failure(from, now);
        Err(Refusal::WrongToken)
    }

    /// All are looked at, whichever is found.
    fn known_token(&self, hash: &TokenHash) -> Option<&AccessToken> {
        self.config.tokens.iter().fold(None, |found, token| if token.hash.matches(hash) { Some(token) } else { found })
    }

    fn note_failure(&mut self, from: IpAddr, now: Time) {
        if !self.notice_limit.take(1.0, now) {
            self.unnoted += 1;
            return;
        }
        let others = match std::mem::take(&mut self.unnoted) {
            0 => String::new(),
            count => format!("; {count} others before it were not noted"),
        };
        self.notices.push(Notice { who: from.to_string(), what: format!("gave a token that is not known{others}") });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn address(network: u8) -> IpAddr {
        [192, 0, network, 1].into()
    }

    fn config(is_public: bool, tokens: &[(&str, AccessClass)]) -> AccessConfig {
        let token = |(name, class): &(&str, AccessClass)| AccessToken {
            name: (*name).to_owned(),
            class: *class,
            hash: TokenHash::from_token(&format!("token of {name}")),
        };
        AccessConfig { is_public, names: Vec::new(), tokens: tokens.iter().map(token).collect() }
    }

    const ALICE: (&str, AccessClass) = ("alice", AccessClass::Admin);
    const BOB: (&str, AccessClass) = ("bob", AccessClass::Read);

    #[test]
    fn who_has_no_token_may_what_everybody_may() {
        let class = |config| {
            let mut gate = Gate::new(config);
            gate.admit(Credential::None, address(2), after(0)).map(|visitor| visitor.class)
        };
        assert_eq!(class(config(false, &[])), Ok(AccessClass::Admin), "this host alone reaches it");
        assert_eq!(class(config(true, &[])), Ok(AccessClass::Read));
        assert_eq!(class(config(true, &[ALICE])), Ok(AccessClass::Read));
        assert_eq!(class(config(false, &[ALICE])), Err(Refusal::NoToken));
    }

    #[test]
    fn a_session_lasts_until_logout_or_until_its_token_is_taken_away() {
        let mut gate = Gate::new(config(false, &[ALICE, BOB]));
        assert_eq!(gate.log_in("token of alice", "secret", address(2), after(0)), Ok(()));
        let visitor = gate.admit(Credential::Session("secret"), address(3), after(1)).unwrap();
        assert_eq!((visitor.name.as_str(), visitor.class), ALICE);
        assert!(gate.is_admitted(&visitor, after(2)));
        gate.set_config(config(false, &[("alice", AccessClass::Read), BOB]));
        assert!(!gate.is_admitted(&visitor, after(3)), "it has another class");
        gate.set_config(config(false, &[BOB]));
        let refused = gate.admit(Credential::Session("secret"), address(2), after(4));
        assert_eq!(refused, Err(Refusal::NoToken));
        assert_eq!(gate.log_in("token of bob", "other", address(2), after(5)), Ok(()));
        gate.log_out("other", address(2), after(6));
        gate.log_out("other", address(2), after(7));
        assert!(gate.admit(Credential::Session("other"), address(2), after(8)).is_err());
        let noted: Vec<_> = gate.take_notices().into_iter().map(|notice| notice.who + ": " + &notice.what).collect();
        let expected =
            ["alice: logged in from 192.0.2.1", "bob: logged in from 192.0.2.1", "bob: logged out from 192.0.2.1"];
        assert_eq!(noted, expected);
    }

    #[test]
    fn wrong_tokens_are_limited_for_each_network_and_a_session_goes_on() {
        let mut gate = Gate::new(config(false, &[ALICE]));
        gate.log_in("token of alice", "secret", address(2), after(0)).unwrap();
        let mut looked_at = 0;
        for second in 1..=60 {
            for _ in 0..10 {
                let refusal = gate.admit(Credential::Bearer("guess"), address(2), after(second)).unwrap_err();
                looked_at += usize::from(refusal == Refusal::WrongToken);
            }
        }
        assert!((15..=22).contains(&looked_at), "{looked_at}");
        let neighbour = [192, 0, 2, 7].into();
        let held_up = gate.log_in("token of alice", "again", neighbour, after(60));
        assert_eq!(held_up, Err(Refusal::TooManyAttempts));
        assert_eq!(gate.log_in("token of alice", "again", address(2), after(60)), Ok(()), "as before");
        assert!(gate.admit(Credential::Session("secret"), address(2), after(60)).is_ok());
        assert!(gate.admit(Credential::Bearer("token of alice"), address(3), after(60)).is_ok(), "another network");
        assert!(gate.admit(Credential::Bearer("token of alice"), neighbour, after(140)).is_ok());
    }

    #[test]
    fn strangers_of_many_networks_do_not_fill_the_audit() {
        let mut gate = Gate::new(config(false, &[ALICE]));
        for network in 0..=255 {
            for _ in 0..20 {
                let _ = gate.admit(Credential::Bearer("guess"), address(network), after(0));
            }
        }
        assert_eq!(gate.take_notices().len(), 60);
        let _ = gate.admit(Credential::Bearer("guess"), address(0), after(3600));
        let noted = gate.take_notices();
        assert!(noted.len() == 1 && noted[0].what.contains("2500 others"), "{noted:?}");
    }
}
