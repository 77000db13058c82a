use super::token::TokenHash;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// For so long a browser stays logged in.
pub(super) const SESSION_LIFETIME: Span = Span::from_secs(30 * 86_400);
/// Browsers that are logged in with one token; the one that has been so for longest gives way.
const MAX_SESSIONS_PER_TOKEN: usize = 64;

/// Browsers that are logged in.
///
/// **Contract.** Pure: times come in, on a clock that never goes back. Memory is bounded by the number of tokens.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<TokenHash, Session>);

#[derive(Debug, Clone, Copy)]
struct Session {
    token: TokenHash,
    began: Time,
}

impl Sessions {
    /// `secret` is by what the browser will be known.
    pub(super) fn begin(&mut self, secret: TokenHash, token: TokenHash, now: Time) {
        self.0.retain(|_, session| now - session.began < SESSION_LIFETIME);
        let of_token = self.0.iter().filter(|(_, session)| session.token == token);
        let of_token: Vec<_> = of_token.map(|(secret, session)| (session.began, *secret)).collect();
        if of_token.len() >= MAX_SESSIONS_PER_TOKEN
            && let Some((_, oldest)) = of_token.into_iter().min()
        {
            self.0.remove(&oldest);
        }
        self.0.insert(secret, Session { token, began: now });
    }

    /// The token that a browser has logged in with.
    pub(super) fn token(&self, secret: &TokenHash, now: Time) -> Option<TokenHash> {
        let session = self.0.get(secret).filter(|session| now - session.began < SESSION_LIFETIME)?;
        Some(session.token)
    }

    pub(super) fn end(&mut self, secret: &TokenHash) {
        self.0.remove(secret);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> TokenHash {
        TokenHash::from_token(text)
    }

    #[test]
    fn sessions_end_and_those_of_one_token_are_bounded() {
        let (mut sessions, after) = (Sessions::default(), |seconds| Time::ZERO + Span::from_secs(seconds));
        sessions.begin(hash("other"), hash("token two"), after(0));
        for number in 0..200 {
            sessions.begin(hash(&number.to_string()), hash("token one"), after(number));
        }
        assert_eq!(sessions.0.len(), 1 + MAX_SESSIONS_PER_TOKEN);
        assert_eq!(sessions.token(&hash("199"), after(200)), Some(hash("token one")));
        assert_eq!((sessions.token(&hash("135"), after(200)), sessions.token(&hash("none"), after(200))), (None, None));
        assert_eq!(sessions.token(&hash("other"), after(200)), Some(hash("token two")), "others take nothing from it");
        sessions.end(&hash("199"));
        assert_eq!(sessions.token(&hash("199"), after(200)), None);
        let late = after(198) + SESSION_LIFETIME;
        assert_eq!(sessions.token(&hash("198"), late), None);
        sessions.begin(hash("late"), hash("token one"), late);
        assert_eq!(sessions.0.len(), 1, "those that have ended are forgotten");
    }
}
