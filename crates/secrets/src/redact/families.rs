//! Keys with a vendor's prefix, and the search that starts from such prefixes.

use std::sync::LazyLock;

use super::piece::{Hit, LastRun, Piece};
use super::prefix::Prefixes;
use super::{shape, structured};

/// Which characters may follow a prefix.
#[derive(Clone, Copy)]
enum Tail {
    /// Letters and digits.
    Plain,
    /// Base 32 digits.
    Base32,
    Hex,
    /// Letters, digits, `_` and `-`.
    Dashed,
    /// The same and `.`.
    Dotted,
    /// Base 64 digits.
    Base64,
}

impl Tail {
    fn accepts(self, byte: u8) -> bool {
        match self {
            Self::Plain => byte.is_ascii_alphanumeric(),
            Self::Base32 => byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Dashed => byte.is_ascii_alphanumeric() || b"_-".contains(&byte),
            Self::Dotted => byte.is_ascii_alphanumeric() || b"_-.".contains(&byte),
            Self::Base64 => byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte),
        }
    }
}

/// One kind of key: the label in its placeholder, its prefix, the characters after it, and their minimum
/// and maximum number.
struct Family(&'static str, &'static str, Tail, usize, usize);

const FAMILIES: &[Family] = &[
    Family("anthropic-key", "sk-ant-", Tail::Dashed, 24, 256),
    // Many vendors of compatible APIs use this prefix, too.
    Family("openai-key", "sk-", Tail::Dashed, 20, 256),
    Family("github-token", "ghp_", Tail::Plain, 30, 255),
    Family("github-token", "gho_", Tail::Plain, 30, 255),
    Family("github-token", "ghu_", Tail::Plain, 30, 255),
    Family("github-token", "ghs_", Tail::Dotted, 30, 1024),
    Family("github-token", "ghr_", Tail::Plain, 30, 255),
    Family("github-token", "github_pat_", Tail::Dashed, 40, 255),
    Family("gitlab-token", "glpat-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "gldt-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "glrt-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "glptt-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "glcbt-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "glft-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "gloas-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "glsoat-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "glimt-", Tail::Dotted, 20, 300),
    Family("gitlab-token", "glagent-", Tail::Dotted, 20, 300),
    Family("aws-key-id", "AKIA", Tail::Base32, 16, 16),
    Family("aws-key-id", "ASIA", Tail::Base32, 16, 16),
    Family("google-key", "AIza", Tail::Dashed, 35, 35),
    Family("google-secret", "GOCSPX-", Tail::Dashed, 24, 40),
    Family("google-token", "ya29.", Tail::Dashed, 20, 2048),
    Family("slack-token", "xoxa-", Tail::Dashed, 16, 255),
    Family("slack-token", "xoxb-", Tail::Dashed, 16, 255),
    Family("slack-token", "xoxc-", Tail::Dashed, 16, 255),
    Family("slack-token", "xoxd-", Tail::Base64, 16, 512),
    Family("slack-token", "xoxe-", Tail::Dashed, 16, 512),
    Family("slack-token", "xoxe.xox", Tail::Dashed, 16, 512),
    Family("slack-token", "xoxo-", Tail::Dashed, 16, 255),
    Family("slack-token", "xoxp-", Tail::Dashed, 16, 255),
    Family("slack-token", "xoxr-", Tail::Dashed, 16, 255),
    Family("slack-token", "xoxs-", Tail::Dashed, 16, 255),
    Family("slack-token", "xapp-", Tail::Dashed, 16, 255),
    // Tokens of `segno serve`: an id and a secret.
    Family("segno-token", "segno_", Tail::Dashed, 81, 81),
    Family("stripe-key", "sk_live_", Tail::Plain, 16, 255),
    Family("stripe-key", "sk_test_", Tail::Plain, 16, 255),
    Family("stripe-key", "rk_live_", Tail::Plain, 16, 255),
    Family("stripe-key", "rk_test_", Tail::Plain, 16, 255),
    Family("webhook-secret", "whsec_", Tail::Base64, 24, 128),
    Family("npm-token", "npm_", Tail::Plain, 36, 36),
    Family("pypi-token", "pypi-AgE", Tail::Dashed, 40, 512),
    Family("huggingface-token", "hf_", Tail::Plain, 30, 64),
    Family("sendgrid-key", "SG.", Tail::Dotted, 60, 80),
    Family("digitalocean-token", "dop_v1_", Tail::Hex, 64, 64),
    Family("digitalocean-token", "doo_v1_", Tail::Hex, 64, 64),
    Family("shopify-token", "shpat_", Tail::Hex, 32, 32),
    Family("shopify-token", "shpss_", Tail::Hex, 32, 32),
    Family("databricks-token", "dapi", Tail::Hex, 32, 32),
    Family("vault-token", "hvs.", Tail::Dashed, 24, 300),
    Family("linear-key", "lin_api_", Tail::Plain, 32, 64),
    Family("grafana-token", "glsa_", Tail::Dashed, 32, 64),
    Family("docker-token", "dckr_pat_", Tail::Dashed, 20, 64),
    Family("tailscale-key", "tskey-", Tail::Dashed, 20, 128),
    Family("xai-key", "xai-", Tail::Plain, 40, 128),
    Family("groq-key", "gsk_", Tail::Plain, 40, 128),
    Family("replicate-token", "r8_", Tail::Plain, 32, 64),
    Family("perplexity-key", "pplx-", Tail::Plain, 32, 64),
    Family("supabase-token", "sbp_", Tail::Hex, 40, 40),
    Family("notion-token", "ntn_", Tail::Plain, 40, 64),
    Family("atlassian-token", "ATATT3", Tail::Base64, 60, 255),
    Family("rubygems-key", "rubygems_", Tail::Hex, 48, 48),
    Family("planetscale-token", "pscale_tkn_", Tail::Dashed, 32, 64),
    Family("postman-key", "PMAK-", Tail::Dashed, 40, 80),
    Family("doppler-token", "dp.st.", Tail::Dotted, 40, 80),
    Family("newrelic-key", "NRAK-", Tail::Plain, 24, 40),
    Family("openai-key", "sk_", Tail::Hex, 40, 64),
    Family("fireworks-key", "fw_", Tail::Plain, 24, 64),
    Family("langsmith-key", "lsv2_", Tail::Dashed, 32, 64),
    Family("huggingface-token", "api_org_", Tail::Plain, 30, 64),
    Family("aws-bedrock-key", "ABSK", Tail::Base64, 100, 300),
    Family("alibaba-key", "LTAI", Tail::Plain, 16, 24),
    Family("cloudflare-key", "v1.0-", Tail::Dashed, 100, 200),
    Family("digitalocean-token", "dor_v1_", Tail::Hex, 64, 64),
    Family("vault-token", "hvb.", Tail::Dashed, 24, 300),
    Family("vault-token", "hvr.", Tail::Dashed, 24, 300),
    Family("shopify-token", "shpca_", Tail::Hex, 32, 32),
    Family("shopify-token", "shppa_", Tail::Hex, 32, 32),
    Family("square-token", "sq0atp-", Tail::Dashed, 22, 60),
    Family("square-token", "sq0csp-", Tail::Dashed, 43, 60),
    Family("square-token", "EAAA", Tail::Dashed, 56, 70),
    Family("facebook-token", "EAAM", Tail::Plain, 80, 300),
    Family("heroku-key", "HRKU-", Tail::Dashed, 36, 80),
    Family("linear-key", "lin_oauth_", Tail::Plain, 32, 64),
    Family("notion-token", "secret_", Tail::Plain, 43, 43),
    Family("mailgun-key", "key-", Tail::Hex, 32, 32),
    Family("brevo-key", "xkeysib-", Tail::Dashed, 64, 90),
    Family("grafana-token", "glc_", Tail::Base64, 32, 400),
    Family("newrelic-key", "NRJS-", Tail::Hex, 19, 19),
    Family("newrelic-key", "NRII-", Tail::Dashed, 32, 32),
    Family("docker-token", "dckr_oat_", Tail::Dashed, 20, 64),
    Family("netlify-token", "nfp_", Tail::Plain, 36, 64),
    Family("supabase-key", "sb_secret_", Tail::Dashed, 31, 60),
    Family("planetscale-token", "pscale_pw_", Tail::Dashed, 32, 64),
    Family("planetscale-token", "pscale_oauth_", Tail::Dashed, 32, 64),
    Family("doppler-token", "dp.pt.", Tail::Plain, 40, 44),
    Family("doppler-token", "dp.ct.", Tail::Plain, 40, 44),
    Family("pulumi-token", "pul-", Tail::Hex, 40, 40),
    Family("nuget-key", "oy2", Tail::Plain, 43, 43),
    Family("crates-io-token", "cio", Tail::Plain, 32, 32),
    Family("clojars-token", "CLOJARS_", Tail::Hex, 60, 60),
    Family("atlassian-token", "ATCTT3", Tail::Base64, 60, 255),
    Family("bitbucket-token", "ATBB", Tail::Plain, 32, 32),
    Family("figma-token", "figd_", Tail::Dashed, 36, 60),
    Family("sentry-token", "sntryu_", Tail::Hex, 64, 64),
    Family("sentry-token", "sntrys_", Tail::Base64, 40, 400),
    Family("sonar-token", "sqp_", Tail::Hex, 40, 40),
    Family("sonar-token", "squ_", Tail::Hex, 40, 40),
    Family("sonar-token", "sqa_", Tail::Hex, 40, 40),
    Family("artifactory-key", "AKCp", Tail::Plain, 60, 80),
    Family("contentful-token", "CFPAT-", Tail::Dashed, 43, 43),
    Family("buildkite-token", "bkua_", Tail::Hex, 40, 40),
    Family("circleci-token", "CCIPAT_", Tail::Dashed, 40, 90),
    Family("prefect-key", "pnu_", Tail::Plain, 36, 36),
    Family("readme-key", "rdme_", Tail::Plain, 70, 70),
    Family("shippo-token", "shippo_live_", Tail::Hex, 40, 40),
    Family("shippo-token", "shippo_test_", Tail::Hex, 40, 40),
    Family("duffel-token", "duffel_live_", Tail::Dashed, 43, 43),
    Family("duffel-token", "duffel_test_", Tail::Dashed, 43, 43),
    Family("adafruit-key", "aio_", Tail::Plain, 28, 28),
    Family("infracost-key", "ico-", Tail::Plain, 32, 32),
    Family("openshift-token", "sha256~", Tail::Dashed, 43, 43),
    Family("airtable-token", "pat", Tail::Dotted, 79, 79),
    Family("dynatrace-token", "dt0c01.", Tail::Dotted, 89, 89),
    Family("dynatrace-token", "dt0s16.", Tail::Dotted, 73, 89),
    Family("flyio-token", "fm2_", Tail::Base64, 60, 800),
    Family("dropbox-token", "sl.", Tail::Dashed, 100, 300),
    Family("typeform-token", "tfp_", Tail::Dotted, 40, 70),
    Family("lob-key", "live_", Tail::Hex, 35, 35),
    Family("easypost-key", "EZAK", Tail::Plain, 54, 54),
    Family("age-key", "AGE-SECRET-KEY-1", Tail::Plain, 50, 70),
];

static PREFIXES: LazyLock<Prefixes> = LazyLock::new(|| {
    let families = FAMILIES.iter().map(|family| family.1);
    Prefixes::new(families.chain(structured::PREFIXES))
});

/// The labels that this finder puts into placeholders.
pub(super) fn labels() -> impl Iterator<Item = &'static str> {
    FAMILIES
        .iter()
        .map(|family| family.0)
        .chain(structured::LABELS)
}

/// Finds keys by their prefixes.
pub(super) fn find(piece: &Piece<'_>, hits: &mut Vec<Hit>) {
    let mut runs = Runs::default();
    let (mut at, mut hidden) = (0, 0);
    while let Some((start, word)) = PREFIXES.next(piece.text, at) {
        at = start + word.len();
        let found = if structured::PREFIXES.contains(&word) {
            structured::find(piece, start..at, word, |at| key_at(piece, at, &mut runs))
        } else {
            prefixed_key(piece, start, word, &mut runs)
        };
        // A key with its mark in the middle may begin inside of another.
        if let Some(hit) = found.filter(|hit| hit.range.start - piece.offset >= hidden) {
            hidden = hit.range.end - piece.offset;
            at = at.max(hidden);
            hits.push(hit);
        }
    }
}

/// The last run of each kind of tail.
type Runs = [LastRun; 6];

/// The key with a known prefix that starts at `at`.
fn key_at(piece: &Piece<'_>, at: usize, runs: &mut Runs) -> Option<Hit> {
    let prefix = PREFIXES.at(piece.text, at)?;
    structured::find(piece, at..at + prefix.len(), prefix, |_| None)
        .or_else(|| prefixed_key(piece, at, prefix, runs))
}

fn prefixed_key(piece: &Piece<'_>, start: usize, prefix: &str, runs: &mut Runs) -> Option<Hit> {
    let Family(label, _, tail, least, most) = FAMILIES.iter().find(|family| family.1 == prefix)?;
    let body = start + prefix.len();
    let run = runs[*tail as usize].end(piece, body, |byte| tail.accepts(byte));
    if !piece.begins_word(start) || run - body > most + 8 {
        return None;
    }
    // The full stop of a sentence is not part of the key.
    let secret = piece.text[body..run].trim_end_matches(['.', '-']);
    let end = body + secret.len();
    let next = piece.text.as_bytes().get(end);
    let word_ends = !next.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    // Names such as `sk-learn-model-name-2` have the prefix but no randomness. Base 32 has one case and
    // may lack a digit, but its length is exact.
    let random = matches!(tail, Tail::Base32)
        || secret.bytes().any(|byte| byte.is_ascii_digit()) && !shape::is_identifier(secret)
        || secret.len() >= 16 && !shape::is_wordlike(secret);
    let fits = (*least..=*most).contains(&secret.len()) && word_ends && random;
    (fits && !shape::is_stand_in(secret)).then(|| piece.hide(start..end, label))
}
