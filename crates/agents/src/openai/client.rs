use reqwest::header::HeaderMap;
use segno_core::agent::{Error, Listener};
use segno_core::model::{Call, Model, Reply};
use segno_core::ports::Boxed;

use super::protocol::{self, ReplyBuilder};
use crate::http::{Client, Endpoint, Inference, secret_header};

/// A model behind chat completions.
pub struct OpenAi {
    client: Client,
    endpoint: Endpoint,
    inference: Inference,
    header: KeyHeader,
}

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// As a bearer token.
    Bearer,
    /// In an `api-key` header, for Azure.
    ApiKey,
}

impl OpenAi {
    /// OpenAI's base URL.
    pub const BASE: &str = "https://api.openai.com/v1";

    /// Gemini's base URL for chat completions.
    pub const GEMINI_BASE: &str = "https://generativelanguage.googleapis.com/v1beta/openai";

    pub fn new(
        client: Client,
        endpoint: Endpoint,
        inference: Inference,
        header: KeyHeader,
    ) -> Self {
        Self {
            client,
            endpoint,
            inference,
            header,
        }
    }
}

impl Model for OpenAi {
    fn reply<'a>(
        &'a self,
        call: Call<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Reply, Error>> {
        Box::pin(async move {
            let url = format!("{}/chat/completions", self.endpoint.base);
            let mut headers = HeaderMap::new();
            if let Some(key) = &self.endpoint.key {
                headers.extend([match self.header {
                    KeyHeader::Bearer => secret_header("authorization", &format!("Bearer {key}"))?,
                    KeyHeader::ApiKey => secret_header("api-key", key)?,
                }]);
            }
            let vendor = self.endpoint.base == Self::BASE;
            let body = protocol::request(&self.endpoint.model, &self.inference, vendor, &call);
            let mut stream = self.client.post(&url, headers, &body).await?;
            let mut builder = ReplyBuilder::default();
            while let Some(data) = stream.next().await? {
                if data.trim() == "[DONE]" {
                    return builder.reply();
                }
                builder.handle(&data, listener)?;
            }
            builder.reply()
        })
    }
}
