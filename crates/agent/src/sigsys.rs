//! SIGSYS: calls from sites that are not patched.

use core::sync::atomic::Ordering;
use syscalls::abi::signals::SYS_USER_DISPATCH;

use crate::arch::entry;
use crate::arch::frames::{AUDIT_ARCH, CALL_BYTES, UContext};
use crate::arch::head::{phase, slow};
use crate::arch::places::in_agent_text;
use crate::context::{current, space};
use crate::signal::{Info, arch_of, is_at_call, si_code};
use crate::{asked, course, profile, signals, sites};

/// Hits before a site is patched: a patch costs as much as a few slow calls.
const HITS: u32 = 4;

/// Handles SIGSYS: a call from an unpatched site, or a signal for the program.
#[unsafe(export_name = "reenact_handle_sigsys")]
pub extern "C" fn on_sigsys(signal: u32, info: &Info, uc: &mut UContext, open: bool) -> u64 {
    let dispatched = si_code(info) == SYS_USER_DISPATCH && is_at_call(info, uc.address());
    if !dispatched || in_agent_text(uc.address()) {
        return signals::on_signal(signal, info, uc, open);
    }
    let context = current();
    let site = uc.address() - CALL_BYTES;
    if context.running.get() == phase::LEFT_ALONE {
        // The thread was just switched to bypass the agent: repeat the call that way.
        context.phase.set(phase::LEFT_ALONE);
        uc.set_address(site);
        return 0;
    }
    let mut back = site + CALL_BYTES;
    // Taken from siginfo, not from the code: another thread may have patched it meanwhile.
    let by_syscall = arch_of(info) == AUDIT_ARCH;
    if !by_syscall {
        asked::ends_if_alone();
        let (rcx, r11) = uc.destroyed();
        context.old_rcx.set(rcx);
        context.old_r11.set(r11);
    } else if course::is_answered() {
        // No site is patched: the program's text stays what it is, as does the memory around it.
        context.slow.set(slow::ANSWERED);
        uc.enter_agent(entry::entry(), site, back);
        return 0;
    } else if let Some(entry) = space().sites.entry_for(site) {
        // Stored before the stub is loaded. A patching thread does it in the opposite order, so at
        // least one of the two sees the other.
        context.slow_site.store(site, Ordering::SeqCst);
        let hits = entry.hits.fetch_add(1, Ordering::Relaxed) + 1;
        if hits == 1 {
            profile::note(context, site);
        }
        if hits >= HITS && !entry.settled.load(Ordering::Relaxed) {
            sites::patch(context, entry, site, hits);
        }
        let stub = entry.stub.load(Ordering::SeqCst);
        if stub != 0 && entry.replaced.load(Ordering::Relaxed) != 0 {
            back = sites::back_of(stub);
            context.slow_site.store(0, Ordering::SeqCst);
        }
    }
    context.slow.set(if by_syscall { slow::SYSCALL } else { slow::INT_80 });
    uc.enter_agent(entry::entry(), site, back);
    0
}
