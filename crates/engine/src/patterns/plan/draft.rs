//! Coming to a plan: it is given, or an agent makes one and a person agrees.

use segno_core::agent::Conduct;
use segno_core::step::Path;

use super::decision::{Decision, YES_NO_OR_PLAN, decide};
use super::{drafted, words};
use crate::error::Error;
use crate::flow::Flow;
use crate::patterns::insist::{Demand, Wording, insist};
use crate::scope::Seen;
use crate::spec::{Approve, Person, Plan};
use crate::work::checklist::{self, Checklist};

/// How often a plan is asked for, for one that holds together.
pub(crate) const MOST_DRAFTS: u32 = 3;

/// What is to be said about the plan before, where one is to be made again.
struct Objection {
    plan: String,
    reason: String,
}

/// The plan that is worked on.
pub(super) async fn settle(flow: &Flow, plan: &Plan) -> Result<Checklist, Error> {
    if let Some(list) = &plan.tasks {
        return Ok(list.clone());
    }
    let (mut list, mut objection) = (None, None);
    for n in 1.. {
        let place = drafted(n);
        let draft = match list.take() {
            Some(list) => list,
            None => make(flow, plan, &place, objection.as_ref()).await?,
        };
        if plan.approve == Approve::None {
            return Ok(draft);
        }
        let prompt = match &objection {
            Some(Objection { plan, reason }) if plan.is_empty() => format!(
                "Your plan cannot be worked on ({reason}). Approve the one before, reject it, or send one that can?"
            ),
            _ => {
                "Approve this plan? Answer `approve`, `reject REASON`, or with another plan.".into()
            }
        };
        let path = place.then("approval");
        let said = ask(flow, &path, &prompt, &draft.text(), YES_NO_OR_PLAN).await?;
        match decide(&said) {
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
    unreachable!("a person is asked until there is a plan")
}

/// Has a plan made.
async fn make(
    flow: &Flow,
    plan: &Plan,
    place: &Path,
    objection: Option<&Objection>,
) -> Result<Checklist, Error> {
    let path = place.then("planner");
    let objection = objection.map(|before| (before.plan.as_str(), before.reason.as_str()));
    let demand = Demand {
        input: Wording::Words(words::planner(flow, &path, &plan.issue, objection)),
        path,
        agent: &plan.planner,
        shape: words::PLAN_SHAPE,
        alone: "the checklist",
        retries: MOST_DRAFTS - 1,
        scope: &flow.scope.remembering([]),
        conduct: Conduct::Look,
    };
    let (list, _) = insist(flow, demand, |text| {
        checklist::read(text).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            problems.join("; ")
        })
    })
    .await?;
    Ok(list)
}

/// Asks a person about something that is shown.
pub(super) async fn ask(
    flow: &Flow,
    path: &Path,
    prompt: &str,
    shown: &str,
    validation: &str,
) -> Result<String, Error> {
    let person = Person {
        prompt: prompt.to_owned(),
        context_display: Some("{{ shown }}".to_owned()),
        default: None,
        timeout: None,
        validation: Some(validation.to_owned()),
    };
    let scope = flow.scope.with([("shown", Seen::from(shown))]);
    let answer = flow.ask_person(path, &person, &scope).await?;
    Ok(flow.text(answer).await?.to_string())
}
