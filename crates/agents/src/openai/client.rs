use reqwest::header::HeaderMap;
use segno_core::agent::{Error, Listener};
use segno_core::model::{Call, Model, Reply};
use segno_core::ports::Boxed;

use super::protocol::{self, Reading};
use crate::http::{Client, Endpoint, Inference, secret};

/// A model behind chat completions.
pub struct OpenAi {
    client: Client,
    endpoint: Endpoint,
    inference: Inference,
}

impl OpenAi {
    /// Where it is unless told otherwise.
    pub const HOST: &str = "https://api.openai.com";

    /// Speaks to the model at `endpoint`.
    pub fn new(client: Client, endpoint: Endpoint, inference: Inference) -> Self {
        Self {
            client,
            endpoint,
            inference,
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
                headers.extend([secret("authorization", &format!("Bearer {key}"))?]);
            }
            let vendor = self.endpoint.base.starts_with(Self::HOST);
            let body = protocol::request(&self.endpoint.model, &self.inference, vendor, &call);
            let mut stream = self.client.post(&url, headers, &body).await?;
            let mut reading = Reading::default();
            while let Some(data) = stream.next().await? {
                if data.trim() == "[DONE]" {
                    return reading.reply();
                }
                reading.take(&data, listener)?;
            }
            reading.reply()
        })
    }
}
