use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use segno_core::agent::{Error, Listener};
use segno_core::model::{Call, Model, Reply};
use segno_core::ports::Boxed;

use super::protocol::{self, ReplyBuilder};
use crate::http::{Client, Endpoint, Inference, secret_header};

/// The supported version of the API.
const VERSION: &str = "2023-06-01";

/// A model behind the Messages API.
pub struct Anthropic {
    client: Client,
    endpoint: Endpoint,
    inference: Inference,
}

impl Anthropic {
    /// The default base URL.
    pub const BASE: &str = "https://api.anthropic.com/v1";

    pub fn new(client: Client, endpoint: Endpoint, inference: Inference) -> Self {
        Self {
            client,
            endpoint,
            inference,
        }
    }

    fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::from_iter([(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static(VERSION),
        )]);
        if let Some(key) = &self.endpoint.key {
            headers.extend([secret_header("x-api-key", key)?]);
        }
        Ok(headers)
    }
}

impl Model for Anthropic {
    fn reply<'a>(
        &'a self,
        call: Call<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Reply, Error>> {
        Box::pin(async move {
            let url = format!("{}/messages", self.endpoint.base);
            let body = protocol::request(&self.endpoint.model, &self.inference, &call);
            let mut stream = self.client.post(&url, self.headers()?, &body).await?;
            let mut builder = ReplyBuilder::default();
            while let Some(data) = stream.next().await? {
                if let Some(reply) = builder.handle(&data, listener)? {
                    return Ok(reply);
                }
            }
            Err(builder.cut_off())
        })
    }
}
