//! Tools that search the web.

use reqwest::header::{HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Method, Url};
use segno_core::tool::EffectClass;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::{HttpRequest, Redirects, parse_url};
use super::html::{Tag, Token, Tokens, decode_entities};
use super::input;
use super::received::Received;
use crate::tools::{BuiltinTool, CallContext, Run, flag, text};

const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// The page without scripts expects a browser's user agent.
const BROWSER_AGENT: &str = concat!(
    "Mozilla/5.0 (compatible; segno/",
    env!("CARGO_PKG_VERSION"),
    ")"
);

/// The search services.
#[derive(Clone)]
pub struct Search {
    /// The page of `DuckDuckGo` that needs no scripts.
    pub duckduckgo: String,
    /// The search API of Tavily.
    pub tavily: String,
    pub tavily_key: Option<String>,
}

impl Search {
    /// The public services.
    pub fn new(tavily_key: Option<String>) -> Self {
        Self {
            duckduckgo: "https://html.duckduckgo.com/html/".to_owned(),
            tavily: "https://api.tavily.com/search".to_owned(),
            tavily_key,
        }
    }
}

pub(in crate::tools) const DUCKDUCKGO_SEARCH: BuiltinTool = BuiltinTool {
    name: "duckduckgo_search",
    description: "Searches the web with DuckDuckGo.",
    class: EffectClass::ReadOnly,
    params: &[
        ("query", "string", true, "the search query"),
        (
            "search_type",
            "string",
            false,
            "`text`; no other type is supported",
        ),
        (
            "max_results",
            "integer",
            false,
            "number of results, from 1 to 50 (default: 10)",
        ),
        (
            "region",
            "string",
            false,
            "for example `de-de` (default: us-en)",
        ),
        (
            "safesearch",
            "string",
            false,
            "`moderate` (default), `on` or `off`",
        ),
        (
            "timelimit",
            "string",
            false,
            "only from the last day, week, month or year: `d`, `w`, `m` or `y`",
        ),
    ],
    run: Run::Async(|input, context| Box::pin(duckduckgo(input, context))),
};

pub(in crate::tools) const TAVILY_SEARCH: BuiltinTool = BuiltinTool {
    name: "tavily_search",
    description: "Searches the web with Tavily.",
    class: EffectClass::ReadOnly,
    params: &[
        ("query", "string", true, "the search query"),
        (
            "max_results",
            "integer",
            false,
            "number of results, from 1 to 20 (default: 5)",
        ),
        (
            "include_answer",
            "boolean",
            false,
            "also return a short answer (default: false)",
        ),
    ],
    run: Run::Async(|input, context| Box::pin(tavily(input, context))),
};

async fn duckduckgo(input: &Value, context: &CallContext<'_>) -> Result<String, String> {
    let query = query(input)?;
    if input["search_type"] == "news" {
        let problem = "`search_type` news is not supported; search for text with a `timelimit`";
        return Err(problem.to_owned());
    }
    let search_type = input::choice(input, "search_type", &["text"])?;
    let max_results = input::count(input, "max_results", 10, 50)?;
    let safe = match input::choice(input, "safesearch", &["moderate", "on", "off"])? {
        "on" => "1",
        "off" => "-2",
        _ => "-1",
    };
    let limit = input::choice(input, "timelimit", &["", "d", "w", "m", "y"])?;
    let region = input["region"].as_str().unwrap_or("us-en");
    let mut url = parse_url(&context.deps.search.duckduckgo)?;
    url.query_pairs_mut()
        .append_pair("q", query)
        .append_pair("kl", region)
        .append_pair("kp", safe)
        .append_pair("df", limit);
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(BROWSER_AGENT));
    let request = HttpRequest {
        method: Method::GET,
        url,
        headers,
        body: None,
        timeout: TIMEOUT,
        redirects: Redirects::Follow,
    };
    let received = context.deps.web.send(request).await?;
    let results = results(&received)?;
    let results: Vec<SearchResult> = results.into_iter().take(max_results).collect();
    let output = json!({
        "query": query,
        "search_type": search_type,
        "result_count": results.len(),
        "results": results,
    });
    Ok(output.to_string())
}

fn query(input: &Value) -> Result<&str, String> {
    match text(input, "query").trim() {
        "" => Err("`query` must not be empty".to_owned()),
        query => Ok(query),
    }
}

#[derive(Debug, Default, Serialize)]
struct SearchResult {
    title: String,
    href: String,
    body: String,
}

/// Parses the results on a page.
fn results(received: &Received) -> Result<Vec<SearchResult>, String> {
    let status = received.status.as_u16();
    // A search that looks automated gets a captcha, with a status of its own.
    if status == 202 || received.text.contains("anomaly-modal") {
        return Err("DuckDuckGo asks for a CAPTCHA; try again later".to_owned());
    }
    if status != 200 {
        return Err(format!("DuckDuckGo responded with status {status}"));
    }
    let found = parse_results(&received.text, &received.url);
    if found.is_empty() && !received.text.contains("no-results") {
        return Err("DuckDuckGo responded with a page without results".to_owned());
    }
    Ok(found)
}

fn parse_results(page: &str, base: &Url) -> Vec<SearchResult> {
    let mut found: Vec<SearchResult> = Vec::new();
    let mut is_ad = false;
    let mut tokens = Tokens::of(page);
    while let Some(token) = tokens.next() {
        let Token::Open(tag) = token else { continue };
        if tag.has_class("result") {
            is_ad = tag.has_class("result--ad");
        } else if tag.has_class("result__a") && !is_ad {
            if let Some(href) = result_url(&tag, base) {
                let title = text_until_close(&mut tokens, &tag.name);
                found.push(SearchResult {
                    title,
                    href,
                    body: String::new(),
                });
            }
        } else if tag.has_class("result__snippet")
            && !is_ad
            && let Some(last) = found.last_mut()
        {
            last.body = text_until_close(&mut tokens, &tag.name);
        }
    }
    found
}

/// The target of a result, without the redirect that counts clicks.
fn result_url(tag: &Tag<'_>, base: &Url) -> Option<String> {
    let url = base.join(&tag.get("href")?).ok()?;
    let detour = url.query_pairs().find(|(name, _)| name == "uddg");
    match (url.path(), detour) {
        ("/l/", Some((_, target))) => Some(target.into_owned()),
        ("/y.js", _) => None,
        _ => Some(url.to_string()),
    }
}

/// The text up to the end of an element.
fn text_until_close(tokens: &mut Tokens<'_>, name: &str) -> String {
    let mut words = String::new();
    for token in tokens {
        match token {
            Token::Text(text) => words.push_str(&decode_entities(text)),
            Token::Close(closed) if closed == name => break,
            _ => {}
        }
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn tavily(input: &Value, context: &CallContext<'_>) -> Result<String, String> {
    let query = query(input)?;
    let max_results = input::count(input, "max_results", 5, 20)?;
    let search = &context.deps.search;
    let key = search
        .tavily_key
        .as_deref()
        .ok_or("TAVILY_API_KEY is not set; the user has to set it")?;
    let (name, value) = input::header("authorization", &format!("Bearer {key}"))?;
    let mut headers = HeaderMap::from_iter([(name, value)]);
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let body = json!({
        "query": query,
        "max_results": max_results,
        "include_answer": flag(input, "include_answer", false),
    });
    let request = HttpRequest {
        method: Method::POST,
        url: parse_url(&search.tavily)?,
        headers,
        body: Some(body.to_string()),
        timeout: TIMEOUT,
        redirects: Redirects::Return,
    };
    let received = context.deps.web.send(request).await?;
    let answer: Option<Value> = serde_json::from_str(&received.text).ok();
    match (received.status.as_u16(), answer) {
        (200, Some(answer)) => Ok(answer.to_string()),
        (200, None) => Err("Tavily's response is not JSON".to_owned()),
        (401 | 403, _) => Err("Tavily rejects TAVILY_API_KEY".to_owned()),
        (status, _) => Err(format!("Tavily responded with status {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_no_ads_and_direct_urls() {
        let page = r#"
            <div class="result results_links result--ad"><h2>
              <a class="result__a" href="https://duckduckgo.com/y.js?ad=1">Buy</a></h2>
              <a class="result__snippet">Now</a></div>
            <div class="result results_links web-result"><h2 class="result__title">
              <a rel="nofollow" class="result__a"
                href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F%3Fx%3D1&amp;rut=9">One
                &amp; <b>only</b></a></h2>
              <a class="result__url" href="x">a.example</a>
              <a class="result__snippet" href="x">About <b>one</b>.</a></div>
            <div class="result web-result">
              <a class="result__a" href="https://b.example/">Two</a></div>"#;
        let base = Url::parse("https://html.duckduckgo.com/html/").unwrap();
        let found = parse_results(page, &base);
        let shown: Vec<_> = found
            .iter()
            .map(|found| (&*found.title, &*found.href, &*found.body))
            .collect();
        assert_eq!(
            shown,
            [
                ("One & only", "https://a.example/?x=1", "About one."),
                ("Two", "https://b.example/", ""),
            ]
        );
    }
}
