use std::io;

pub(crate) fn index_of(_name: &str) -> io::Result<u32> {
    crate::portable::unsupported("interfaces by name")
}

/// By their number, interfaces may be named in addresses; whether there is one, sockets say.
pub(crate) fn name_of(index: u32) -> Option<String> {
    (index != 0).then(|| index.to_string())
}
