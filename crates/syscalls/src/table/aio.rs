//! Asynchronous I/O: Linux AIO and io_uring. Data is transferred without further calls.

use super::words::*;
use crate::abi::rings::{ENTER_EXT_ARG, ENTER_EXT_ARG_REG};
use crate::act::Act;
use crate::flags as f;
use crate::handler::Handler;
use crate::layout as l;
use crate::shape::Len::{Arg as ByArg, ArgTimes, Fixed, RetTimes};
use crate::shape::Of::{Bits, Bytes, I32, SigSet, Struct, U32, U64};
use crate::shape::{Arg, Gives, Ret, Syscall};

const OPCODE: Arg = bits("opcode", &f::URING_REGISTER);

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(206, "io_setup", MEMORY, SIMULATED, Ret::Int, &[uint("nr_events"), inout("ctx_idp", U64, Fixed(8))]).does(Act::SetUpAio).handled(Handler::AioSetup).again(UNKNOWN),
    call(207, "io_destroy", MEMORY, SIMULATED, Ret::Int, &[hex("ctx_id")]).handled(Handler::AioDestroy),
    call(208, "io_getevents", WAIT, SIMULATED, Ret::Int, &[
        hex("ctx_id"), long("min_nr"), long("nr"), output("events", Struct(&l::IO_EVENT), RetTimes(32)),
        in_struct("timeout", &l::TIMESPEC)]).does(Act::ReapFromAio).handled(Handler::AioReap),
    call(209, "io_submit", NONE, LEFT_OUT, Ret::Int, &[hex("ctx_id"), long("nr"), input("iocbpp", U64, ArgTimes(1, 8))]).does(Act::SubmitToAio).handled(Handler::AioSubmit),
    call(210, "io_cancel", NONE, SIMULATED, Ret::Int, &[hex("ctx_id"), in_struct("iocb", &l::IOCB), out_struct("result", &l::IO_EVENT)]),
    call(333, "io_pgetevents", WAIT, SIMULATED, Ret::Int, &[
        hex("ctx_id"), long("min_nr"), long("nr"), output("events", Struct(&l::IO_EVENT), RetTimes(32)),
        in_struct("timeout", &l::TIMESPEC), in_holder("usig", &l::SIGSET_ARG)]).does(Act::ReapFromAio).handled(Handler::AioReap),

    call(425, "io_uring_setup", DESC, SIMULATED, Ret::Fd, &[uint("entries"), inout_struct("params", &l::IO_URING_PARAMS)]).does(Act::SetUpRing).handled(Handler::RingSetup).gives(Gives::Object("io_uring")).until_exec().again(UNKNOWN),
    family(426, "io_uring_enter", DESC.or(SIGNAL), LEFT_OUT, Ret::Int, &[
        fd("fd"), uint("to_submit"), uint("min_complete"), bits("flags", &f::URING_ENTER),
        input("argp", SigSet, ByArg(5)), size("argsz")], &[
        when_set(3, ENTER_EXT_ARG_REG, Ret::Int, &[
            fd("fd"), uint("to_submit"), uint("min_complete"), bits("flags", &f::URING_ENTER), hex("argp"), size("argsz")]),
        when_set(3, ENTER_EXT_ARG, Ret::Int, &[
            fd("fd"), uint("to_submit"), uint("min_complete"), bits("flags", &f::URING_ENTER),
            in_sized("argp", &l::IO_URING_GETEVENTS_ARG, ByArg(5)), size("argsz")]),
        otherwise(Ret::Int, &[
            fd("fd"), uint("to_submit"), uint("min_complete"), bits("flags", &f::URING_ENTER),
            input("argp", SigSet, ByArg(5)), size("argsz")]),
    ]).does(Act::SubmitToRing).handled(Handler::RingEnter),
    family(427, "io_uring_register", DESC.or(MEMORY), SIMULATED, Ret::Int, &[
        fd("fd"), OPCODE, addr("arg"), uint("nr_args")], &[
        when(1, 0, Ret::Int, &[fd("fd"), OPCODE, input("arg", Struct(&l::IOVEC), ArgTimes(3, 16)), uint("nr_args")]),
        when(1, 1, Ret::Int, &[fd("fd"), OPCODE, addr("arg"), uint("nr_args")]),
        when(1, 2, Ret::Int, &[fd("fd"), OPCODE, input("arg", I32, ArgTimes(3, 4)), uint("nr_args")]),
        when(1, 3, Ret::Int, &[fd("fd"), OPCODE, addr("arg"), uint("nr_args")]),
        when(1, 4, Ret::Int, &[fd("fd"), OPCODE, input("arg", I32, ArgTimes(3, 4)), uint("nr_args")]),
        when(1, 5, Ret::Int, &[fd("fd"), OPCODE, addr("arg"), uint("nr_args")]),
        when(1, 7, Ret::Int, &[fd("fd"), OPCODE, input("arg", I32, ArgTimes(3, 4)), uint("nr_args")]),
        // The head of a probe is as long as two of its 8-byte elements.
        when(1, 8, Ret::Int, &[fd("fd"), OPCODE, output("arg", Bytes, Fixed(16)), uint("nr_args")]),
        when(1, 9, Ret::Int, &[fd("fd"), OPCODE, addr("arg"), uint("nr_args")]),
        when(1, 10, Ret::Int, &[fd("fd"), OPCODE, addr("arg"), uint("nr_args")]),
        when(1, 12, Ret::Int, &[fd("fd"), OPCODE, addr("arg"), uint("nr_args")]),
        when(1, 17, Ret::Int, &[fd("fd"), OPCODE, input("arg", Bits, ByArg(3)), uint("nr_args")]),
        when(1, 18, Ret::Int, &[fd("fd"), OPCODE, addr("arg"), uint("nr_args")]),
        when(1, 19, Ret::Int, &[fd("fd"), OPCODE, inout("arg", U32, Fixed(8)), uint("nr_args")]),
        when(1, 20, Ret::Int, &[fd("fd"), OPCODE, input("arg", Struct(&l::IO_URING_RSRC_UPDATE), ArgTimes(3, 16)), uint("nr_args")]),
        when(1, 21, Ret::Int, &[fd("fd"), OPCODE, input("arg", Struct(&l::IO_URING_RSRC_UPDATE), ArgTimes(3, 16)), uint("nr_args")]),
        when(1, 22, Ret::Int, &[fd("fd"), OPCODE, inout("arg", Bytes, Fixed(40)), uint("nr_args")]),
        when(1, 23, Ret::Int, &[fd("fd"), OPCODE, input("arg", Bytes, Fixed(40)), uint("nr_args")]),
    ]).handled(Handler::RingRegister),
];
