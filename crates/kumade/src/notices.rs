//! What happens to peers, paths and configurations, in the log.

use crate::event_hook::{EventHook, EventKind};
use kumade_overlay_io::{NodeNotice, NoticeContent, RemoteChange};
use std::path::Path;

/// Logs what has happened, and tells the hook of it. `peers` are the names of the far ends, `name_path` names a path by its place.
pub(crate) fn log_notices(
    notices: &[NodeNotice],
    peers: &[String],
    name_path: impl Fn(usize) -> String,
    hook: &mut Option<EventHook>,
) {
    for NodeNotice { time, content } in notices {
        match content {
            NoticeContent::Handshake(notice) => tracing::warn!("{notice}"),
            NoticeContent::Remote { remote, change } => {
                let Some(peer) = peers.get(*remote) else { continue };
                let event = match change {
                    RemoteChange::Connected => Some((EventKind::PeerConnected, None)),
                    RemoteChange::Lost { .. } => Some((EventKind::PeerLost, None)),
                    RemoteChange::Restarted => Some((EventKind::PeerRestarted, None)),
                    RemoteChange::PathFailed(path) => Some((EventKind::PathFailed, Some(path))),
                    RemoteChange::PathReturned(path) => Some((EventKind::PathReturned, Some(path))),
                    RemoteChange::PathEnded(_) => None,
                };
                if let (Some(hook), Some((kind, path))) = (hook.as_mut(), event) {
                    hook.send(kind, peer, &path.map(|path| name_path(path.index())).unwrap_or_default());
                }
                match change {
                    RemoteChange::Connected => tracing::info!("{peer}: connected"),
                    RemoteChange::Lost { last_heard: Some(heard) } => {
                        tracing::warn!("{peer}: not connected: it has sent nothing for {}", *time - *heard);
                    }
                    RemoteChange::Lost { last_heard: None } => tracing::warn!("{peer}: not connected"),
                    RemoteChange::Restarted => tracing::info!("{peer}: has restarted"),
                    RemoteChange::PathFailed(path) => {
                        tracing::warn!(
                            "{peer}: path {} has failed: its packets are not answered",
                            name_path(path.index())
                        );
                    }
                    RemoteChange::PathEnded(path) => {
                        tracing::debug!("{peer}: the TCP connection of path {} has ended", name_path(path.index()));
                    }
                    RemoteChange::PathReturned(path) => {
                        tracing::info!("{peer}: path {} is back", name_path(path.index()))
                    }
                }
            }
        }
    }
}

/// Says what has come of reading a configuration file again: which changes, or why none.
pub(crate) fn log_reload(file: &Path, outcome: &anyhow::Result<Vec<String>>) {
    let file = file.display();
    match outcome {
        Ok(changes) if changes.is_empty() => tracing::info!("{file}: read again, nothing has changed"),
        Ok(changes) => changes.iter().for_each(|change| tracing::info!("changed: {change}")),
        Err(error) => tracing::error!("{file}: the configuration stays as it was: {error:#}"),
    }
}
