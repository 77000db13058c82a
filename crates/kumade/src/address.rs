//! Addresses as people write them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Where to listen: an address, a port, or both: `7272`, `:7272`, `127.0.0.1`, `::1`, `[::1]`, `192.0.2.1:7272`,
/// `[::1]:7272`. What is not said is all addresses, and `port`.
///
/// # Errors
/// Says what the text is not, with examples.
pub(crate) fn listen(text: &str, port: u16) -> Result<SocketAddr, String> {
    let text = text.trim();
    let all = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let only_port = text.strip_prefix(':').unwrap_or(text).parse().map(|port| SocketAddr::new(all, port));
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let only_address = inner.parse().map(|address| SocketAddr::new(address, port));
    only_port.ok().or(only_address.ok()).or(text.parse().ok()).ok_or_else(|| {
        format!("`{text}` is neither an address nor a port; write it like {port}, 127.0.0.1 or [::1]:{port}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding 9 of the review by a new user: a port alone, and an address alone, were refused.
    #[test]
    fn what_is_left_out_is_filled_in() {
        for (text, address) in [
            ("7273", "[::]:7273"),
            (":7273", "[::]:7273"),
            ("127.0.0.1", "127.0.0.1:7272"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]", "[::1]:7272"),
            ("::1", "[::1]:7272"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(listen(text, 7272), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", "localhost", "70000", "1.2.3", "[::1", "127.0.0.1:"] {
            assert!(listen(text, 7272).unwrap_err().contains("write it like 7272, 127.0.0.1"), "{text}");
        }
    }
}
