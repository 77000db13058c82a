use crate::table::Id;
use kumade_packet::{Headers, Quote, RewriteError, rewrite, rewrite_offloaded, rewrite_quote};

/// How a packet passes a translator: what it says before and after. Nothing is changed until [`Passage::apply`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    pub(crate) before: Headers,
    pub(crate) after: Headers,
    /// Of an ICMP error, the quoted packet, and its headers after translation.
    pub(crate) quote: Option<(Quote, Headers)>,
    /// The packet came from the inside and goes back there.
    pub(crate) hairpin: bool,
    /// The session of a packet from the outside.
    pub(crate) session: Option<Id>,
    /// Later fragments of this first one are to follow it.
    pub(crate) leads_fragments: bool,
}

impl Passage {
    pub(crate) fn new(packet: &[u8], headers: &Headers) -> Self {
        let quote = Quote::of(packet, headers).map(|quote| (quote, quote.headers));
        let before = *headers;
        Passage { before, after: before, quote, hairpin: false, session: None, leads_fragments: false }
    }

    /// Changes the packet accordingly. If it is offloaded, the transport checksum is still to be completed.
    pub(crate) fn apply(&self, packet: &mut [u8], is_offloaded: bool) -> Result<(), RewriteError> {
        if let Some((quote, after)) = &self.quote {
            rewrite_quote(packet, quote, after)?;
        }
        match is_offloaded {
            true => rewrite_offloaded(packet, &self.before, &self.after),
            false => rewrite(packet, &self.before, &self.after),
        }
    }
}
