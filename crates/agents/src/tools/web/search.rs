//! Searches of the web.

use reqwest::header::{HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Method, Url};
use segno_core::tool::Class;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::{Ask, Redirects, address};
use super::input;
use super::markup::{Piece, Pieces, Tag, decoded};
use super::received::Received;
use crate::tools::{Bench, Native, Run, flag, text};

/// How long a search may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// What the page for browsers without scripts wants to hear.
const BROWSER: &str = concat!(
    "Mozilla/5.0 (compatible; segno/",
    env!("CARGO_PKG_VERSION"),
    ")"
);

/// Where is searched.
#[derive(Clone)]
pub struct Search {
    /// The page of `DuckDuckGo` that needs no scripts.
    pub duckduckgo: String,
    /// The search of Tavily.
    pub tavily: String,
    /// The key for Tavily, if there is one.
    pub tavily_key: Option<String>,
}

impl Search {
    /// The real ones.
    pub fn new(tavily_key: Option<String>) -> Self {
        Self {
            duckduckgo: "https://html.duckduckgo.com/html/".to_owned(),
            tavily: "https://api.tavily.com/search".to_owned(),
            tavily_key,
        }
    }
}

pub(in crate::tools) const DUCKDUCKGO_SEARCH: Native = Native {
    name: "duckduckgo_search",
    description: "Searches the web with DuckDuckGo.",
    class: Class::ReadOnly,
    takes: &[
        ("query", "string", true, "what to look for"),
        (
            "search_type",
            "string",
            false,
            "`text`, which is the only one",
        ),
        (
            "max_results",
            "integer",
            false,
            "how many results, from 1 to 50 (10)",
        ),
        ("region", "string", false, "like `de-de` (us-en)"),
        (
            "safesearch",
            "string",
            false,
            "`moderate` (the default), `on` or `off`",
        ),
        (
            "timelimit",
            "string",
            false,
            "only from the last day, week, month or year: `d`, `w`, `m` or `y`",
        ),
    ],
    run: Run::Later(|input, bench| Box::pin(duckduckgo(input, bench))),
};

pub(in crate::tools) const TAVILY_SEARCH: Native = Native {
    name: "tavily_search",
    description: "Searches the web with Tavily.",
    class: Class::ReadOnly,
    takes: &[
        ("query", "string", true, "what to look for"),
        (
            "max_results",
            "integer",
            false,
            "how many results, from 1 to 20 (5)",
        ),
        (
            "include_answer",
            "boolean",
            false,
            "a short answer besides (false)",
        ),
    ],
    run: Run::Later(|input, bench| Box::pin(tavily(input, bench))),
};

async fn duckduckgo(input: &Value, bench: &Bench<'_>) -> Result<String, String> {
    let query = query(input)?;
    if input["search_type"] == "news" {
        let problem = "`search_type` news is not there: search for text, with a `timelimit`";
        return Err(problem.to_owned());
    }
    let sort = input::choice(input, "search_type", &["text"])?;
    let most = input::count(input, "max_results", 10, 50)?;
    let safe = match input::choice(input, "safesearch", &["moderate", "on", "off"])? {
        "on" => "1",
        "off" => "-2",
        _ => "-1",
    };
    let limit = input::choice(input, "timelimit", &["", "d", "w", "m", "y"])?;
    let region = input["region"].as_str().unwrap_or("us-en");
    let mut url = address(&bench.gear.search.duckduckgo)?;
    url.query_pairs_mut()
        .append_pair("q", query)
        .append_pair("kl", region)
        .append_pair("kp", safe)
        .append_pair("df", limit);
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(BROWSER));
    let ask = Ask {
        method: Method::GET,
        url,
        headers,
        body: None,
        timeout: PATIENCE,
        redirects: Redirects::Follow,
    };
    let received = bench.gear.web.send(ask).await?;
    let results = results(&received)?;
    let results: Vec<Found> = results.into_iter().take(most).collect();
    let told = json!({
        "query": query,
        "search_type": sort,
        "result_count": results.len(),
        "results": results,
    });
    Ok(told.to_string())
}

fn query(input: &Value) -> Result<&str, String> {
    match text(input, "query").trim() {
        "" => Err("`query` must not be empty".to_owned()),
        query => Ok(query),
    }
}

/// One result.
#[derive(Debug, Default, Serialize)]
struct Found {
    title: String,
    href: String,
    body: String,
}

/// The results on a page.
fn results(received: &Received) -> Result<Vec<Found>, String> {
    let status = received.status.as_u16();
    // A search that looks automatic is answered with a riddle, which has a status of its own.
    if status == 202 || received.text.contains("anomaly-modal") {
        return Err("duckduckgo wants to be asked by a person now; try later".to_owned());
    }
    if status != 200 {
        return Err(format!("duckduckgo answered with status {status}"));
    }
    let found = found(&received.text, &received.url);
    if found.is_empty() && !received.text.contains("no-results") {
        return Err("duckduckgo answered with a page that has no results to read".to_owned());
    }
    Ok(found)
}

fn found(page: &str, base: &Url) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut is_ad = false;
    let mut pieces = Pieces::of(page);
    while let Some(piece) = pieces.next() {
        let Piece::Open(tag) = piece else { continue };
        if tag.is_of("result") {
            is_ad = tag.is_of("result--ad");
        } else if tag.is_of("result__a") && !is_ad {
            if let Some(href) = leads_to(&tag, base) {
                let title = words(&mut pieces, &tag.name);
                found.push(Found {
                    title,
                    href,
                    body: String::new(),
                });
            }
        } else if tag.is_of("result__snippet")
            && !is_ad
            && let Some(last) = found.last_mut()
        {
            last.body = words(&mut pieces, &tag.name);
        }
    }
    found
}

/// Where a result leads, without the detour over the page that counts clicks.
fn leads_to(tag: &Tag<'_>, base: &Url) -> Option<String> {
    let url = base.join(&tag.get("href")?).ok()?;
    let detour = url.query_pairs().find(|(name, _)| name == "uddg");
    match (url.path(), detour) {
        ("/l/", Some((_, target))) => Some(target.into_owned()),
        ("/y.js", _) => None,
        _ => Some(url.to_string()),
    }
}

/// The words up to the end of an element.
fn words(pieces: &mut Pieces<'_>, name: &str) -> String {
    let mut words = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => words.push_str(&decoded(text)),
            Piece::Close(closed) if closed == name => break,
            _ => {}
        }
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn tavily(input: &Value, bench: &Bench<'_>) -> Result<String, String> {
    let query = query(input)?;
    let most = input::count(input, "max_results", 5, 20)?;
    let search = &bench.gear.search;
    let key = search
        .tavily_key
        .as_deref()
        .ok_or("a person has to set TAVILY_API_KEY first")?;
    let (name, value) = input::header("authorization", &format!("Bearer {key}"))?;
    let mut headers = HeaderMap::from_iter([(name, value)]);
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let body = json!({
        "query": query,
        "max_results": most,
        "include_answer": flag(input, "include_answer", false),
    });
    let ask = Ask {
        method: Method::POST,
        url: address(&search.tavily)?,
        headers,
        body: Some(body.to_string()),
        timeout: PATIENCE,
        redirects: Redirects::Keep,
    };
    let received = bench.gear.web.send(ask).await?;
    let answer: Option<Value> = serde_json::from_str(&received.text).ok();
    match (received.status.as_u16(), answer) {
        (200, Some(answer)) => Ok(answer.to_string()),
        (200, None) => Err("tavily answered with something that is not JSON".to_owned()),
        (401 | 403, _) => Err("tavily does not accept TAVILY_API_KEY".to_owned()),
        (status, _) => Err(format!("tavily answered with status {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_found_without_ads_and_detours() {
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
        let found = found(page, &base);
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
