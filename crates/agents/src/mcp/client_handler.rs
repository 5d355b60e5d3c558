//! Segno as an MCP client: how it answers a server's requests, nearly always by refusing.

use std::path::PathBuf;

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};

#[expect(
    deprecated,
    reason = "newer servers do not request roots; older ones do"
)]
use rmcp::model::{ListRootsResult, Root};

/// The client side of a connection. Sampling is an unknown method, and elicitation is declined:
/// these are the trait's defaults.
#[derive(Debug)]
pub(super) struct SegnoClient {
    /// The folder in which a program works.
    pub(super) folder: Option<PathBuf>,
}

impl ClientHandler for SegnoClient {
    /// Declares no capabilities. Roots would be available, but a server that learns of them may
    /// drop the folders in its arguments (the filesystem server does), so they are only sent on
    /// request.
    fn get_info(&self) -> ClientConfig {
        let segno = Implementation::new("segno", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), segno)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    #[expect(deprecated, reason = "older servers request roots")]
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
