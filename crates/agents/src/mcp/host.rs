//! What Segno answers when a server asks something of it: nearly always no.

use std::path::PathBuf;

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};

#[expect(
    deprecated,
    reason = "newer servers no longer ask for folders; older ones do"
)]
use rmcp::model::{ListRootsResult, Root};

/// Segno, as a server sees it. Sampling is an unknown method to it, and elicitation is declined,
/// which is what the trait does if nothing else is said.
#[derive(Debug)]
pub(super) struct Host {
    /// The folder that a program works in.
    pub(super) folder: Option<PathBuf>,
}

impl ClientHandler for Host {
    /// Promises nothing. Folders would be at hand, but a server that hears of them may forget those
    /// that its arguments name (the filesystem server does), so they are only told if asked for.
    fn get_info(&self) -> ClientConfig {
        let segno = Implementation::new("segno", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), segno)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    #[expect(deprecated, reason = "older servers ask for folders")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let folder = self.folder.as_ref();
        let url = folder.and_then(|folder| reqwest::Url::from_directory_path(folder).ok());
        let roots = url.map(|url| Root::new(url.as_str()));
        Ok(ListRootsResult::new(roots.into_iter().collect()))
    }
}
