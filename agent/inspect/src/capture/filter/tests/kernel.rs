//! An interpreter of BPF programs, like the kernel's.

use usher_core::node::packet::Instruction;

use super::super::instruction::{
    A_TO_X, ADD, ADD_X, AND, IF_EQUAL, IF_SET, INFO, JUMP, LOAD_BYTE_X, LOAD_HALF_X, LOAD_WORD,
    LOAD_WORD_X, LOAD_X, RETURN, SHIFT_LEFT, X_TO_A,
};

/// Runs a program; supports only the instructions that the filter uses.
pub(super) fn run(program: &[Instruction], bytes: &[u8], info: impl Fn(u32) -> u32) -> u32 {
    let (mut a, mut x, mut at) = (0_u32, 0_u32, 0_usize);
    loop {
        let instruction = program[at];
        let operand = instruction.operand;
        at += 1;
        let read = |width: usize| {
            let from = (x + operand) as usize;
            let bytes = bytes.get(from..from + width)?;
            Some(
                bytes
                    .iter()
                    .fold(0, |number, byte| number << 8 | u32::from(*byte)),
            )
        };
        let loaded = match instruction.code {
            LOAD_WORD => Some(info(operand.wrapping_sub(INFO))),
            LOAD_WORD_X => read(4),
            LOAD_HALF_X => read(2),
            LOAD_BYTE_X => read(1),
            ADD => Some(a + operand),
            ADD_X => Some(a + x),
            AND => Some(a & operand),
            SHIFT_LEFT => Some(a << operand),
            X_TO_A => Some(x),
            RETURN => return operand,
            LOAD_X => {
                x = operand;
                continue;
            }
            A_TO_X => {
                x = a;
                continue;
            }
            JUMP => {
                at += operand as usize;
                continue;
            }
            IF_EQUAL | IF_SET => {
                let holds = match instruction.code {
                    IF_EQUAL => a == operand,
                    _ => a & operand != 0,
                };
                let jump = if holds {
                    instruction.jump_true
                } else {
                    instruction.jump_false
                };
                at += usize::from(jump);
                continue;
            }
            other => panic!("unsupported instruction {other:#x}"),
        };
        match loaded {
            Some(value) => a = value,
            None => return 0,
        }
    }
}
