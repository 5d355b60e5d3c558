//! Inserts calls of the [budget](super::budget) into compiled code.
//!
//! The inserted instructions leave the stack as it was, so the code computes the same. Jumps are
//! redirected. Lines are kept, for errors.

use minijinja::Value;
use minijinja::machinery::{Instruction, Instructions};

use super::budget::{ADD, BUILT, CAPTURE, COMPARE, EMIT, RAW, TEXT};

/// The same code with calls of the budget.
pub(super) fn instrument<'s>(code: &Instructions<'s>) -> Instructions<'s> {
    let old: Vec<&Instruction<'s>> = (0..).map_while(|at| code.get(at)).collect();
    let repeats = old
        .iter()
        .any(|instruction| matches!(instruction, Instruction::Iterate(_)));
    let captures = old
        .iter()
        .any(|instruction| matches!(instruction, Instruction::BeginCapture(_)));
    let call = |name| Instruction::CallFunction(name, Some(1));
    let both = |right, left| {
        vec![
            call(right),
            Instruction::Swap,
            call(left),
            Instruction::Swap,
        ]
    };
    let before = |instruction: &Instruction<'s>| match instruction {
        // What is captured becomes a value; what is not becomes output.
        Instruction::Emit if captures => vec![call(CAPTURE)],
        Instruction::Emit => vec![call(EMIT)],
        Instruction::EmitRaw(text) if repeats => vec![
            Instruction::LoadConst(Value::from(text.len())),
            call(RAW),
            Instruction::DiscardTop,
        ],
        Instruction::StringConcat => both(TEXT, TEXT),
        Instruction::Add => both(ADD, ADD),
        Instruction::Eq
        | Instruction::Ne
        | Instruction::Gt
        | Instruction::Gte
        | Instruction::Lt
        | Instruction::Lte
        | Instruction::In
        | Instruction::CompareAndPreserve(_) => both(COMPARE, COMPARE),
        _ => Vec::new(),
    };
    let after = |instruction: &Instruction<'s>| match instruction {
        Instruction::Add
        | Instruction::Mul
        | Instruction::Slice
        | Instruction::BuildMap(_)
        | Instruction::BuildList(_)
        | Instruction::BuildTuple(_)
        | Instruction::ApplyFilter(..)
        | Instruction::CallFunction(..)
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_) => vec![call(BUILT)],
        _ => Vec::new(),
    };
    let groups: Vec<_> = old
        .iter()
        .map(|instruction| (before(instruction), after(instruction)))
        .collect();
    let mut starts = Vec::with_capacity(old.len() + 1);
    let mut next = 0_u32;
    for (before, after) in &groups {
        starts.push(next);
        next += u32::try_from(before.len() + 1 + after.len()).unwrap_or(1);
    }
    starts.push(next);
    let start = |at: u32| starts.get(at as usize).copied().unwrap_or(next);
    let mut new = Instructions::new(code.name(), code.source());
    for ((at, instruction), (before, after)) in (0..).zip(old).zip(groups) {
        let moved = match instruction {
            Instruction::Iterate(to) => Instruction::Iterate(start(*to)),
            Instruction::Jump(to) => Instruction::Jump(start(*to)),
            Instruction::JumpIfFalse(to) => Instruction::JumpIfFalse(start(*to)),
            Instruction::JumpIfFalseOrPop(to) => Instruction::JumpIfFalseOrPop(start(*to)),
            Instruction::JumpIfTrueOrPop(to) => Instruction::JumpIfTrueOrPop(start(*to)),
            other => other.clone(),
        };
        for instruction in before.into_iter().chain([moved]).chain(after) {
            match (code.get_span(at), code.get_line(at)) {
                (Some(span), _) => new.add_with_span(instruction, span),
                (None, Some(line)) => {
                    new.add_with_line(instruction, u16::try_from(line).unwrap_or(u16::MAX))
                }
                (None, None) => new.add(instruction),
            };
        }
    }
    new
}
