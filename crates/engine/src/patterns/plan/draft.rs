//! Gets the plan: it is given, or an agent drafts one and a human approves it.

use segno_core::agent::AccessMode;
use segno_core::step::Path;
use segno_spec::checklist::{self, Checklist};
use segno_spec::{Approve, HumanQuestion, Plan};

use super::decision::{Decision, YES_NO_OR_PLAN, parse_decision};
use super::{draft_path, prompts};
use crate::error::Error;
use crate::patterns::structured_output::{StructuredQuestion, Wording, ask_structured};
use crate::scope::TemplateValue;
use crate::steps::Runner;

/// How often a valid plan is asked for.
pub const MAX_DRAFTS: u32 = 3;

/// The rejected plan, and why it must be redone.
struct Objection {
    plan: String,
    reason: String,
}

/// Returns the plan to work on: the given one, or an approved draft.
pub(super) async fn resolve_plan(runner: &Runner, plan: &Plan) -> Result<Checklist, Error> {
    if let Some(list) = &plan.tasks {
        return Ok(list.clone());
    }
    let (mut list, mut objection) = (None, None);
    for n in 1.. {
        let prefix = draft_path(n);
        let draft = match list.take() {
            Some(list) => list,
            None => ask_planner(runner, plan, &prefix, objection.as_ref()).await?,
        };
        if plan.approve == Approve::None {
            return Ok(draft);
        }
        let prompt = match &objection {
            Some(Objection { plan, reason }) if plan.is_empty() => format!(
                "Your plan is not valid ({reason}). Approve the previous plan, reject it, or send a valid one?"
            ),
            _ => {
                "Approve this plan? Answer `approve`, `reject REASON`, or with another plan.".into()
            }
        };
        let path = prefix.join("approval");
        let said = ask_human(runner, &path, &prompt, &draft.text(), YES_NO_OR_PLAN).await?;
        match parse_decision(&said) {
            Decision::Approve => return Ok(draft),
            Decision::Plan(list) => return Ok(list),
            Decision::Reject(reason) => {
                let plan = draft.text();
                objection = Some(Objection { plan, reason });
            }
            Decision::BadPlan(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                objection = Some(Objection {
                    plan: String::new(),
                    reason: problems.join("; "),
                });
                list = Some(draft);
            }
        }
    }
    unreachable!("the user is asked until there is a plan")
}

/// Asks the planner for a plan.
async fn ask_planner(
    runner: &Runner,
    plan: &Plan,
    prefix: &Path,
    objection: Option<&Objection>,
) -> Result<Checklist, Error> {
    let path = prefix.join("planner");
    let objection = objection.map(|before| (before.plan.as_str(), before.reason.as_str()));
    let structured = StructuredQuestion {
        input: Wording::Text(prompts::planner(runner, &path, &plan.issue, objection)),
        path,
        agent: &plan.planner,
        shape: prompts::PLAN_SHAPE,
        alone: "the checklist",
        retries: MAX_DRAFTS - 1,
        scope: &runner.rendering.scope.remembering([]),
        access: AccessMode::ReadOnly,
    };
    let (list, _) = ask_structured(runner, structured, |text| {
        checklist::read(text).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            problems.join("; ")
        })
    })
    .await?;
    Ok(list)
}

/// Asks a human about something that is shown.
pub(super) async fn ask_human(
    runner: &Runner,
    path: &Path,
    prompt: &str,
    shown: &str,
    validation: &str,
) -> Result<String, Error> {
    let human_step = HumanQuestion {
        prompt: prompt.to_owned(),
        context_display: Some("{{ shown }}".to_owned()),
        default: None,
        timeout: None,
        validation: Some(validation.to_owned()),
    };
    let scope = runner
        .rendering
        .scope
        .with([("shown", TemplateValue::from(shown))]);
    let answer = runner.ask_human(path, &human_step, &scope).await?;
    Ok(runner.text(answer).await?.to_string())
}
