use crate::action::Direction;
use crate::table::EntryId;
use kumade_packet::{Headers, QuotedPacket, RewriteError, rewrite, rewrite_offloaded, rewrite_quote};

/// How a packet passes a translator: what it says before and after. Nothing is changed until [`HeaderRewrite::apply_to`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderRewrite {
    pub(crate) original: Headers,
    pub(crate) translated: Headers,
    /// Of an ICMP error, the quoted packet, and its headers after translation.
    pub(crate) quote: Option<(QuotedPacket, Headers)>,
    /// The packet came from the inside and goes back there.
    pub(crate) is_hairpin: bool,
    /// The session of a packet from the outside.
    pub(crate) session: Option<EntryId>,
    /// Later fragments of this first one are to follow it.
    pub(crate) has_later_fragments: bool,
}

impl HeaderRewrite {
    pub(crate) fn new(packet: &[u8], headers: &Headers) -> Self {
        let quote = QuotedPacket::from_error(packet, headers).map(|quote| (quote, quote.headers));
        let before = *headers;
        HeaderRewrite {
            original: before,
            translated: before,
            quote,
            is_hairpin: false,
            session: None,
            has_later_fragments: false,
        }
    }

    /// The headers that the inside sees of a packet that passes in this direction.
    pub(crate) fn inside_headers(&self, direction: Direction) -> &Headers {
        match direction {
            Direction::Outbound => &self.original,
            Direction::Inbound => &self.translated,
        }
    }

    /// Changes the packet accordingly. If it is offloaded, the transport checksum is still to be completed.
    pub(crate) fn apply_to(&self, packet: &mut [u8], is_offloaded: bool) -> Result<(), RewriteError> {
        if let Some((quote, after)) = &self.quote {
            rewrite_quote(packet, quote, after)?;
        }
        match is_offloaded {
            true => rewrite_offloaded(packet, &self.original, &self.translated),
            false => rewrite(packet, &self.original, &self.translated),
        }
    }
}
