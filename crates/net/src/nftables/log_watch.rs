use crate::netlink::NetlinkSocket;
use crate::setup::SetupError;
use nix::sys::socket::SockProtocol;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Tells that packets have come to a [`Statement::Log`](super::Statement::Log) of the namespace of the thread that opened it, which need not be asked
/// for then. What nobody watches, the kernel does not log.
#[derive(Debug)]
pub struct LogWatch {
    netlink: NetlinkSocket,
}

/// NFULNL_MSG_CONFIG of linux/netfilter/nfnetlink_log.h, as linux/netfilter/nfnetlink.h puts types together.
const CONFIGURE: u16 = (libc::NFNL_SUBSYS_ULOG as u16) << 8 | libc::NFULNL_MSG_CONFIG as u16;
/// Logged packets are kept up to so many bytes: that some were lost is told, too.
const BUFFER_BYTES: usize = 16 << 10;

impl LogWatch {
    /// Watches a group from now on. Each has one watcher at a time.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN; another one watches it; or the kernel has no log for programs.
    pub fn open(group: u16) -> Result<Self, SetupError> {
        let open = || {
            let netlink = NetlinkSocket::open(SockProtocol::NetlinkNetFilter)?;
            netlink.set_receive_buffer(BUFFER_BYTES)?;
            netlink.request(CONFIGURE, 0, &encode_bind(group))?;
            Ok(netlink)
        };
        let failed = |error: io::Error| {
            SetupError::new(format!("watch the log group {group} of nf_tables"), error).with_hint(
                "it takes root, or CAP_NET_ADMIN in this network namespace, and nfnetlink_log (`modprobe nfnetlink_log`); and no other program may watch this group",
            )
        };
        open().map(|netlink| LogWatch { netlink }).map_err(failed)
    }

    /// Whether a packet was logged since this was last asked. Takes a system call where not.
    pub fn take_packets(&self) -> bool {
        self.netlink.take_notifications()
    }
}

impl AsFd for LogWatch {
    /// Readable once a packet was logged, until that is [taken](LogWatch::take_packets).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

/// struct nfgenmsg and the attribute NFULA_CFG_CMD.
fn encode_bind(group: u16) -> Vec<u8> {
    const NO_FAMILY: u8 = libc::AF_UNSPEC as u8;
    const ATTRIBUTE_BYTES: u16 = 5;
    let mut body = vec![NO_FAMILY, libc::NFNETLINK_V0 as u8];
    body.extend(group.to_be_bytes());
    body.extend(ATTRIBUTE_BYTES.to_ne_bytes());
    body.extend((libc::NFULA_CFG_CMD as u16).to_ne_bytes());
    // Padded to four bytes.
    body.extend([libc::NFULNL_CFG_CMD_BIND as u8, 0, 0, 0]);
    body
}
