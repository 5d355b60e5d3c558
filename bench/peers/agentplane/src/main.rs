//! One round of agentplane on its redb store: `peer-agentplane STEPS DIR`.
//!
//! One run of one skill, which performs STEPS journaled effects in a chain.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use agentplane::core::{Effect, EffectDescriptor, EffectError, Trust};
use agentplane::prelude::*;
use serde_json::{Value, json};

/// 2,048 characters that differ from step to step.
fn output(step: u64) -> String {
    format!("{step:08}").repeat(256)
}

/// A step: takes its number, yields its output, changes nothing outside.
#[derive(Debug)]
struct Step(u64);

#[async_trait]
impl Effect for Step {
    type Output = String;

    fn descriptor(&self) -> EffectDescriptor {
        EffectDescriptor::new("bench.step", json!({ "step": self.0 }))
    }

    fn trust(&self) -> Trust {
        Trust::Trusted
    }

    fn mutates(&self) -> bool {
        false
    }

    async fn perform(&self) -> Result<String, EffectError> {
        Ok(output(self.0))
    }
}

#[derive(Debug)]
struct Chain {
    steps: u64,
    ms: Arc<Mutex<Option<f64>>>,
}

#[async_trait]
impl Skill for Chain {
    fn descriptor(&self) -> SkillDescriptor {
        SkillDescriptor::new("chain")
    }

    async fn invoke(
        &self,
        cx: &mut StepCtx<'_>,
        input: Tainted<Value>,
    ) -> Result<Outcome, SkillError> {
        let begun = Instant::now();
        for step in 0..self.steps {
            std::hint::black_box(cx.effect(Step(step)).await?);
        }
        let ms = begun.elapsed().as_secs_f64() * 1e3 / self.steps as f64;
        *self.ms.lock().expect("not poisoned") = Some(ms);
        Ok(Outcome::done(input))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, steps, dir] = args.as_slice() else {
        return Err("usage: peer-agentplane STEPS DIR".into());
    };
    let steps: u64 = steps.parse()?;
    let ms = Arc::new(Mutex::new(None));
    let store: Arc<dyn JournalStore> = Arc::new(RedbStore::open(format!("{dir}/agentplane.redb"))?);
    let runtime = Runtime::builder(store)
        .owner("bench")
        .skill(Chain {
            steps,
            ms: Arc::clone(&ms),
        })
        .build();
    runtime
        .start("chain", Tainted::trusted(json!({})))
        .run()
        .await?
        .success()?;
    let ms = ms
        .lock()
        .expect("not poisoned")
        .ok_or("the chain did not end")?;
    println!("{}", json!({ "ms_per_step": ms }));
    Ok(())
}
