//! Downloads objects from a remote.

use std::path::Path as File;

use object_store::path::Path;
use object_store::{GetOptions, GetRange};
use segno_core::remote::Error;

use super::fault::Fault;
use super::{ObjectRemote, PART_LENGTH, file};

impl ObjectRemote {
    /// Writes an object into a file, one part at a time.
    pub(super) async fn fetch(
        &self,
        name: &str,
        path: &Path,
        length: u64,
        file: &File,
    ) -> Result<(), Error> {
        let store = self.client()?.store();
        let mut at = 0;
        while at < length {
            let to = length.min(at + PART_LENGTH);
            let part = || async {
                let options = GetOptions {
                    range: Some(GetRange::Bounded(at..to)),
                    ..GetOptions::default()
                };
                let got = store.get_opts(path, options).await?;
                let whole = got.meta.size;
                let bytes = got.bytes().await?;
                let is_whole = bytes.len() as u64 == to - at || whole != length;
                let cut = || Fault::Transient("a response was cut off".to_owned());
                is_whole.then_some((whole, bytes)).ok_or_else(cut)
            };
            let got = self.retry(part).await;
            let (whole, bytes) = got.map_err(|fault| self.error(name, fault))?;
            if whole != length {
                let reason = format!("it has {whole} bytes instead of {length}");
                return Err(self.damaged(name, &reason));
            }
            file::write(file, at, bytes.into()).await?;
            at = to;
        }
        Ok(())
    }
}
