//! What the sender to another database tells.

use super::Recorder;
use crate::remote_write::{Position, RemoteWriteNews};

impl Recorder {
    pub(super) fn take_remote_write_news(&mut self, news: RemoteWriteNews) {
        match news {
            RemoteWriteNews::Position(position) => {
                if let Err(error) = self.archive.put_state(Position::STATE_KEY, Some(&position)) {
                    self.fail(&error);
                }
            }
            RemoteWriteNews::Progress(progress) => {
                if let Some(text) = progress.change_since(self.remote_write.as_ref()) {
                    self.note(None, "remote-write", text);
                }
                self.remote_write = Some(progress);
            }
        }
    }
}
