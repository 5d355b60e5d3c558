//! An MCP server that is a program.

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;

use super::error::SendError;
use super::message;
use crate::json_rpc::Stdio;

impl Transport<RoleClient> for Stdio {
    type Error = SendError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let stdin = self.stdin();
        async move {
            let mut line =
                serde_json::to_vec(&item).map_err(|error| SendError::Lost(error.to_string()))?;
            line.push(b'\n');
            let sent = stdin.lock().await.write_all(&line).await;
            sent.map_err(|error| SendError::Lost(error.to_string()))
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let line = self.next_whole_line().await?;
            let parsed = message::parse(&line);
            if parsed.is_some() {
                return parsed;
            }
            self.note_noise(&line);
        }
    }

    async fn close(&mut self) -> Result<(), SendError> {
        Ok(())
    }
}
