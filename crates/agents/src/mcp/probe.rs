//! A fuzzing entry point.

use rmcp::model::{CallToolResponse, JsonRpcMessage, RequestId, ServerResult};

use super::{message, tool_result, tools};

/// Parses `bytes`, one message per line, and renders the result.
pub fn parse_messages(bytes: &[u8]) -> String {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.map(line).collect()
}

fn line(line: &[u8]) -> String {
    let Some(parsed) = message::parse(line) else {
        return "nothing\n".to_owned();
    };
    let answers = message::is_response_to(&parsed, &RequestId::Number(1));
    let shown = match parsed {
        JsonRpcMessage::Response(response) => match response.result {
            ServerResult::CallToolResult(result) => {
                let shown = tool_result::text(CallToolResponse::Complete(result));
                format!("{shown:?}")
            }
            ServerResult::ListToolsResult(listed) => {
                let offers = listed.tools.iter().map(|tool| tools::offer(tool).tool);
                format!("{:?}", offers.collect::<Vec<_>>())
            }
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    format!("{answers} {shown}\n")
}
