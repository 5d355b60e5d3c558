//! A door for fuzz targets.

use rmcp::model::{CallToolResponse, JsonRpcMessage, RequestId, ServerResult};

use super::{answer, tools, wire};

/// What is understood of `bytes`, a message in each line.
pub fn heard(bytes: &[u8]) -> String {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.map(line).collect()
}

fn line(line: &[u8]) -> String {
    let Some(message) = wire::message(line) else {
        return "nothing\n".to_owned();
    };
    let answers = wire::answers(&message, &RequestId::Number(1));
    let told = match message {
        JsonRpcMessage::Response(response) => match response.result {
            ServerResult::CallToolResult(result) => {
                let told = answer::text(CallToolResponse::Complete(result));
                format!("{told:?}")
            }
            ServerResult::ListToolsResult(listed) => {
                let offers = listed.tools.iter().map(|tool| tools::offer(tool).tool);
                format!("{:?}", offers.collect::<Vec<_>>())
            }
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    format!("{answers} {told}\n")
}
