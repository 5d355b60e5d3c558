//! Keys: those of vendors, which have a form of their own, and those that only their name betrays.

use super::draw::{
    ALPHANUMERIC, BASE32, BASE36, BASE64, BECH32, DIGITS, Draw, HEX, LETTERS, PASSWORD, UPPER36,
    URL_SAFE,
};
use super::{Sample, encodings, places};

/// A vendor's key: the variable that usually holds it, its prefix, alphabet and length.
type Vendor = (&'static str, &'static str, &'static str, usize);

/// Formats as their vendors document them. The prefixes are cut in two to be no keys themselves.
const VENDORS: &[Vendor] = &[
    ("GITHUB_TOKEN", "gh|p_", ALPHANUMERIC, 36),
    ("GITHUB_TOKEN", "gh|s_", ALPHANUMERIC, 36),
    ("GH_TOKEN", "gh|o_", ALPHANUMERIC, 36),
    ("GITLAB_TOKEN", "gl|pat-", URL_SAFE, 20),
    ("GITLAB_TRIGGER_TOKEN", "gl|ptt-", HEX, 40),
    ("CI_RUNNER_TOKEN", "gl|rt-", URL_SAFE, 20),
    ("CI_JOB_TOKEN", "gl|cbt-64_", URL_SAFE, 20),
    ("AWS_ACCESS_KEY_ID", "AK|IA", BASE32, 16),
    ("AWS_ACCESS_KEY_ID", "AS|IA", BASE32, 16),
    (
        "AWS_BEARER_TOKEN_BEDROCK",
        "ABS|KQmVkcm9ja0FQSUtleS",
        BASE64,
        109,
    ),
    ("GOOGLE_API_KEY", "AI|za", URL_SAFE, 35),
    ("GOOGLE_CLIENT_SECRET", "GOC|SPX-", URL_SAFE, 28),
    ("GOOGLE_TOKEN", "ya|29.a0", URL_SAFE, 120),
    ("STRIPE_KEY", "sk_|live_", ALPHANUMERIC, 24),
    ("STRIPE_KEY", "rk_|live_51", ALPHANUMERIC, 97),
    ("STRIPE_WEBHOOK_SECRET", "whs|ec_", ALPHANUMERIC, 32),
    ("NPM_TOKEN", "np|m_", ALPHANUMERIC, 36),
    ("PYPI_TOKEN", "py|pi-AgEIcHlwaS5vcmcC", URL_SAFE, 150),
    ("HF_TOKEN", "h|f_", LETTERS, 34),
    ("HF_ORG_TOKEN", "api|_org_", LETTERS, 34),
    ("OPENAI_API_KEY", "s|k-", ALPHANUMERIC, 48),
    ("OPENAI_API_KEY", "sk|-proj-", URL_SAFE, 156),
    ("OPENAI_API_KEY", "sk|-svcacct-", URL_SAFE, 120),
    ("ANTHROPIC_API_KEY", "sk|-ant-api03-", URL_SAFE, 95),
    ("CLAUDE_CODE_OAUTH_TOKEN", "sk|-ant-oat01-", URL_SAFE, 95),
    ("OPENROUTER_API_KEY", "sk|-or-v1-", HEX, 64),
    ("GROQ_API_KEY", "gs|k_", ALPHANUMERIC, 52),
    ("XAI_API_KEY", "xa|i-", ALPHANUMERIC, 80),
    ("PERPLEXITY_API_KEY", "ppl|x-", ALPHANUMERIC, 48),
    ("REPLICATE_API_TOKEN", "r8|_", ALPHANUMERIC, 37),
    ("ELEVENLABS_API_KEY", "s|k_", HEX, 48),
    ("FIREWORKS_API_KEY", "fw|_", ALPHANUMERIC, 24),
    ("LANGSMITH_API_KEY", "lsv2|_pt_", HEX, 32),
    ("CLOUDFLARE_ORIGIN_KEY", "v1.|0-", HEX, 171),
    ("DIGITALOCEAN_TOKEN", "dop|_v1_", HEX, 64),
    ("DIGITALOCEAN_REFRESH", "dor|_v1_", HEX, 64),
    ("VAULT_TOKEN", "hv|s.", URL_SAFE, 91),
    ("VAULT_TOKEN", "hv|b.", URL_SAFE, 140),
    ("SHOPIFY_TOKEN", "shp|at_", HEX, 32),
    ("SHOPIFY_TOKEN", "shp|ca_", HEX, 32),
    ("SQUARE_TOKEN", "sq0|atp-", URL_SAFE, 22),
    ("SQUARE_SECRET", "sq0|csp-", URL_SAFE, 43),
    ("SQUARE_ACCESS_TOKEN", "EAA|A", URL_SAFE, 60),
    ("HEROKU_API_KEY", "HR|KU-AA", URL_SAFE, 58),
    ("LINEAR_API_KEY", "lin|_api_", ALPHANUMERIC, 40),
    ("NOTION_TOKEN", "nt|n_", ALPHANUMERIC, 46),
    ("NOTION_TOKEN", "sec|ret_", ALPHANUMERIC, 43),
    ("MAILGUN_API_KEY", "ke|y-", HEX, 32),
    ("BREVO_API_KEY", "xkey|sib-", HEX, 64),
    ("DATABRICKS_TOKEN", "da|pi", HEX, 32),
    ("GRAFANA_TOKEN", "gl|sa_", ALPHANUMERIC, 32),
    ("GRAFANA_CLOUD_TOKEN", "gl|c_eyJ", BASE64, 60),
    ("NEW_RELIC_KEY", "NR|AK-", UPPER36, 27),
    ("DOCKER_TOKEN", "dckr|_pat_", URL_SAFE, 27),
    ("DOCKER_TOKEN", "dckr|_oat_", URL_SAFE, 32),
    ("TAILSCALE_KEY", "tsk|ey-auth-", ALPHANUMERIC, 28),
    ("NETLIFY_TOKEN", "nf|p_", ALPHANUMERIC, 36),
    ("SUPABASE_TOKEN", "sb|p_", HEX, 40),
    ("SUPABASE_SECRET", "sb_|secret_", URL_SAFE, 31),
    ("PLANETSCALE_TOKEN", "psca|le_tkn_", URL_SAFE, 43),
    ("PLANETSCALE_PASSWORD", "psca|le_pw_", URL_SAFE, 43),
    ("DOPPLER_TOKEN", "dp.|pt.", ALPHANUMERIC, 43),
    ("PULUMI_ACCESS_TOKEN", "pu|l-", HEX, 40),
    ("NUGET_KEY", "oy|2", BASE36, 43),
    ("CRATES_IO_TOKEN", "ci|o", ALPHANUMERIC, 32),
    ("CLOJARS_TOKEN", "CLO|JARS_", HEX, 60),
    ("RUBYGEMS_KEY", "ruby|gems_", HEX, 48),
    ("ATLASSIAN_TOKEN", "AT|ATT3", URL_SAFE, 186),
    ("BITBUCKET_TOKEN", "AT|BB", ALPHANUMERIC, 32),
    ("FIGMA_TOKEN", "fi|gd_", URL_SAFE, 40),
    ("SENTRY_TOKEN", "snt|ryu_", HEX, 64),
    ("SONAR_TOKEN", "sq|p_", HEX, 40),
    ("ARTIFACTORY_KEY", "AK|Cp", ALPHANUMERIC, 69),
    ("CONTENTFUL_TOKEN", "CF|PAT-", URL_SAFE, 43),
    ("BUILDKITE_TOKEN", "bk|ua_", HEX, 40),
    ("PREFECT_API_KEY", "pn|u_", ALPHANUMERIC, 36),
    ("README_KEY", "rd|me_", BASE36, 70),
    ("SHIPPO_TOKEN", "ship|po_live_", HEX, 40),
    ("DUFFEL_TOKEN", "duf|fel_live_", URL_SAFE, 43),
    ("ADAFRUIT_KEY", "ai|o_", ALPHANUMERIC, 28),
    ("INFRACOST_KEY", "ic|o-", ALPHANUMERIC, 32),
    ("ALIBABA_KEY_ID", "LT|AI", ALPHANUMERIC, 20),
    ("OPENSHIFT_TOKEN", "sha|256~", URL_SAFE, 43),
    ("FACEBOOK_TOKEN", "EA|AM", ALPHANUMERIC, 120),
    ("AGE_KEY", "AGE-SEC|RET-KEY-1", BECH32, 58),
];

/// Variables whose values have no form of their own: name, alphabet, length.
const BY_NAME: &[Vendor] = &[
    ("DD_API_KEY", "", HEX, 32),
    ("DATADOG_APP_KEY", "", HEX, 40),
    ("CLOUDFLARE_API_TOKEN", "", URL_SAFE, 40),
    ("CLOUDFLARE_API_KEY", "", HEX, 37),
    ("TWILIO_AUTH_TOKEN", "", HEX, 32),
    ("TWILIO_API_SECRET", "", ALPHANUMERIC, 32),
    ("AWS_SECRET_ACCESS_KEY", "", BASE64, 40),
    ("AZURE_CLIENT_SECRET", "", URL_SAFE, 40),
    ("COHERE_API_KEY", "", ALPHANUMERIC, 40),
    ("MISTRAL_API_KEY", "", ALPHANUMERIC, 32),
    ("VERCEL_TOKEN", "", ALPHANUMERIC, 24),
    ("WANDB_API_KEY", "", HEX, 40),
    ("DISCORD_CLIENT_SECRET", "", URL_SAFE, 32),
    ("SPOTIFY_CLIENT_SECRET", "", HEX, 32),
    ("ALGOLIA_ADMIN_KEY", "", HEX, 32),
    ("API_KEY", "", ALPHANUMERIC, 24),
    ("API_KEY", "", BASE36, 26),
    ("SECRET_KEY", "", ALPHANUMERIC, 50),
    ("AUTH_TOKEN", "", ALPHANUMERIC, 32),
    ("ACCESS_TOKEN", "", ALPHANUMERIC, 40),
    ("ACCESS_TOKEN", "", LETTERS, 32),
    ("REFRESH_TOKEN", "", URL_SAFE, 64),
    ("CLIENT_SECRET", "", BASE36, 30),
    ("JWT_SECRET", "", ALPHANUMERIC, 28),
    ("SESSION_SECRET", "", BASE64, 44),
    ("WEBHOOK_SECRET", "", HEX, 40),
    ("SIGNING_KEY", "", HEX, 64),
    ("ENCRYPTION_KEY", "", BASE64, 43),
    ("PRIVATE_KEY", "", HEX, 64),
    ("TOKEN", "", ALPHANUMERIC, 25),
    ("SECRET", "", LETTERS, 26),
    ("LICENSE_KEY", "", UPPER36, 25),
    ("MASTER_KEY", "", HEX, 32),
    ("DB_PASSWORD", "", PASSWORD, 16),
    ("PASSWORD", "", PASSWORD, 12),
    ("PGPASSWORD", "", ALPHANUMERIC, 20),
    ("REDIS_PASSWORD", "", ALPHANUMERIC, 32),
    ("ADMIN_PASSWORD", "", PASSWORD, 14),
    ("SMTP_PASS", "", ALPHANUMERIC, 16),
    ("PASSPHRASE", "", ALPHANUMERIC, 18),
    ("CREDENTIAL", "", ALPHANUMERIC, 36),
];

/// A vendor's key, in any place.
pub(super) fn sample(draw: &Draw) -> Sample {
    let (name, before, body) = if draw.below(5) == 0 {
        composed(draw)
    } else {
        let (name, prefix, alphabet, length) = draw.one(VENDORS);
        (name, prefix.replace('|', ""), draw.text(alphabet, length))
    };
    let value = format!("{before}{body}");
    let text = if draw.flip() {
        places::named(draw, name, &value)
    } else {
        places::bare(draw, &value)
    };
    let family: String = before.chars().take(12).collect();
    Sample::new(format!("key: {name} {family}"), text, body)
}

/// A key that only its name betrays, in a place that names it.
pub(super) fn assigned(draw: &Draw) -> Sample {
    let (name, _, alphabet, length) = draw.one(BY_NAME);
    // A password that starts with a sign would need quotes in most places.
    let value = if alphabet == PASSWORD {
        draw.mixed(2) + &draw.text(alphabet, length - 2)
    } else {
        draw.text(alphabet, length)
    };
    Sample::new(
        format!("assigned: {name}"),
        places::named(draw, name, &value),
        value,
    )
}

/// Keys of several parts: the usual variable, the fixed beginning, the rest.
fn composed(draw: &Draw) -> (&'static str, String, String) {
    let digits = |length| draw.text(DIGITS, length);
    match draw.below(16) {
        0 => (
            "GITHUB_PAT",
            ["github", "_pat_"].concat(),
            format!("{}_{}", draw.mixed(22), draw.mixed(59)),
        ),
        1 => (
            "SLACK_BOT_TOKEN",
            format!("{}-{}-{}-", ["xo", "xb"].concat(), digits(12), digits(13)),
            draw.mixed(24),
        ),
        2 => (
            "SLACK_USER_TOKEN",
            format!(
                "{}-{}-{}-{}-",
                ["xo", "xp"].concat(),
                digits(12),
                digits(12),
                digits(13)
            ),
            draw.hex(32),
        ),
        3 => (
            "SLACK_APP_TOKEN",
            format!(
                "{}-1-A{}-{}-",
                ["xa", "pp"].concat(),
                draw.text(UPPER36, 10),
                digits(13)
            ),
            draw.hex(64),
        ),
        4 => (
            "SENDGRID_API_KEY",
            ["S", "G."].concat(),
            format!("{}.{}", draw.text(URL_SAFE, 22), draw.text(URL_SAFE, 43)),
        ),
        5 => (
            "TELEGRAM_BOT_TOKEN",
            format!("{}:AA", digits(10)),
            draw.text(URL_SAFE, 33),
        ),
        6 => (
            "POSTMAN_API_KEY",
            ["PM", "AK-"].concat(),
            format!("{}-{}", draw.hex(24), draw.hex(34)),
        ),
        7 => (
            "DISCORD_TOKEN",
            format!("M{}.{}.", draw.mixed(25), draw.text(URL_SAFE, 6)),
            draw.text(URL_SAFE, 38),
        ),
        8 => (
            "MAILGUN_API_KEY",
            String::new(),
            format!("{}-{}-{}", draw.hex(32), draw.hex(8), draw.hex(8)),
        ),
        9 => (
            "MAILCHIMP_API_KEY",
            String::new(),
            format!("{}-us{}", draw.hex(32), draw.between(1, 21)),
        ),
        10 => (
            "TERRAFORM_TOKEN",
            format!("{}.{}.", draw.mixed(14), ["atlas", "v1"].concat()),
            draw.mixed(67),
        ),
        11 => (
            "AIRTABLE_TOKEN",
            format!("{}{}.", ["pa", "t"].concat(), draw.mixed(14)),
            draw.hex(64),
        ),
        12 => (
            "DYNATRACE_TOKEN",
            format!("{}.{}.", ["dt0", "c01"].concat(), draw.text(BASE32, 24)),
            draw.text(BASE32, 64),
        ),
        13 => (
            "AZURE_CLIENT_SECRET",
            format!("{}8Q~", draw.mixed(3)),
            draw.text(URL_SAFE, 34),
        ),
        14 => ("TWILIO_API_KEY", ["S", "K"].concat(), draw.hex(32)),
        _ => {
            let part = |json: String| encodings::url_safe(json.as_bytes());
            let header = part("{\"alg\":\"HS256\",\"typ\":\"JWT\"}".to_owned());
            let claims = part(format!(
                "{{\"sub\":\"{}\",\"name\":\"{}\",\"iat\":17{}}}",
                digits(10),
                draw.word(),
                digits(8)
            ));
            (
                "ID_TOKEN",
                format!("{header}.{claims}."),
                draw.text(URL_SAFE, 43),
            )
        }
    }
}
