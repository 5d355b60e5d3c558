//! Parses the messages of a server.

use rmcp::ErrorData;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

/// The message in these bytes; `None` if there is none. A response that cannot be parsed becomes an
/// error for its request, which would otherwise wait until its timeout.
pub(super) fn parse(bytes: &[u8]) -> Option<ServerJsonRpcMessage> {
    if let Ok(message) = serde_json::from_slice(bytes) {
        return Some(message);
    }
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let is_answer = value.get("method").is_none();
    let id: RequestId = serde_json::from_value(value.get("id")?.clone()).ok()?;
    let problem = ErrorData::internal_error("the response is not a valid MCP message", None);
    is_answer.then(|| JsonRpcMessage::error(problem, Some(id)))
}

/// Whether this is the response to that request.
pub(super) fn is_response_to(message: &ServerJsonRpcMessage, request: &RequestId) -> bool {
    let id = match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    };
    // Some servers write numeric ids as strings.
    id.is_some_and(|id| id.to_string() == request.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unparsable_response_is_an_error_for_its_request() {
        let id = RequestId::Number(7);
        for (text, is_message, is_answer) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, true, true),
            (r#"{"jsonrpc":"2.0","id":"7","result":{}}"#, true, true),
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, true, false),
            (r#"{"jsonrpc":"1.0","id":7,"result":{}}"#, true, true),
            (r#"{"jsonrpc":"2.0","id":7,"error":"no"}"#, true, true),
            (r#"{"jsonrpc":"2.0","method":"x"}"#, true, false),
            (r#"{"level":"info"}"#, false, false),
            ("Listening ...", false, false),
            ("", false, false),
        ] {
            let message = parse(text.as_bytes());
            assert_eq!(message.is_some(), is_message, "{text}");
            let answered = message.is_some_and(|message| is_response_to(&message, &id));
            assert_eq!(answered, is_answer, "{text}");
        }
    }
}
