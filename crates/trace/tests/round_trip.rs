//! Everything written is read back.

mod sample;

use proptest::collection::vec;
use proptest::prelude::*;

use sample::{events, open, options, write};
use trace::Compress;
use trace::event::{
    BlobId, Call, Content, Data, Event, EventKind, Extras, GapWhy, Identity, KernelEvent,
    KernelLayout, OpenFd, Outcome, ProcessState, StartHow, UnknownEvent,
};
use trace::format::event_number;
use trace::kernel::{KernelField, KernelKind, KernelWords};
use trace::parts::{Part, PartValue};

/// Returns numbers that are often small or equal, and sometimes anything.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..4_u64, 2 => 0..5000_u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn short() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=64)
}

/// Returns content that may refer to missing buffers, which the encoding ignores.
fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        3 => short().prop_map(Content::Inline),
        1 => (1..u64::MAX, vec(number().prop_map(BlobId), 0..5))
            .prop_map(|(len, ids)| Content::Blobs { len, ids }),
    ]
}

fn item() -> impl Strategy<Value = Data> {
    let head = (prop_oneof![0..7_u8, Just(0xfe_u8), any::<u8>()], any::<u8>(), any::<u16>());
    let tail = (any::<u8>(), number(), proptest::option::of(any::<u128>()), content());
    (head, tail).prop_map(|((arg, part, index), (flags, true_len, hash, content))| {
        let index = index.saturating_sub(60_000);
        let true_len = if true_len == 1 { content.len() } else { true_len };
        Data { arg, part: part.saturating_sub(240), index, flags, true_len, hash, content }
    })
}

fn identity() -> impl Strategy<Value = (u8, Identity)> {
    (any::<u8>(), any::<[u64; 6]>(), any::<[u32; 4]>()).prop_map(|(arg, wide, narrow)| {
        let [dev, ino, size, rdev, mtime, _] = wide;
        let [mode, nlink, uid, gid] = narrow;
        (arg, Identity { dev, ino, mode, nlink, uid, gid, size, rdev, mtime_ns: mtime as i64 })
    })
}

fn call() -> impl Strategy<Value = EventKind> {
    let shape = (0..500_u16, any::<bool>(), 0..3_u64, 0..=6_u8);
    let outcome = prop_oneof![
        (number(), number())
            .prop_map(|(exit_tsc, ret)| { Outcome::Returned { exit_tsc, ret: ret as i64 } }),
        Just(Outcome::Unfinished)
    ];
    let args = vec(number(), 6);
    (shape, args, outcome, vec(item(), 0..3), vec(identity(), 0..2)).prop_map(
        |((nr, slow, site, nargs), args, outcome, data, identities)| {
            let (flags, site) = (slow.into(), 0x7f00_0000_0000 + site * 0x1111);
            let args = args.try_into().unwrap();
            EventKind::Call(Call { nr, flags, site, nargs, args, outcome, data, identities })
        },
    )
}

fn state() -> impl Strategy<Value = EventKind> {
    let fd = (any::<i32>(), short(), any::<u64>(), any::<u32>())
        .prop_map(|(fd, target, offset, flags)| OpenFd { fd, target, offset, flags });
    let ids = (any::<[u32; 4]>(), any::<[u32; 4]>(), vec(any::<u32>(), 0..4), any::<[u32; 4]>());
    let paths = (short(), short(), short());
    let masks = any::<(u64, u64)>();
    (ids, paths, masks, vec(any::<(u64, u64)>(), 0..4), vec(fd, 0..5)).prop_map(
        |(
            (uids, gids, groups, [process, pid, ppid, umask]),
            (exe, cwd, root),
            masks,
            limits,
            fds,
        )| {
            let (sig_blocked, sig_ignored) = masks;
            EventKind::State(Box::new(ProcessState {
                process,
                pid,
                ppid,
                exe,
                cwd,
                root,
                uids,
                gids,
                groups,
                umask,
                sig_blocked,
                sig_ignored,
                limits,
                fds,
                fds_left_out: if process % 2 == 0 { u64::from(pid) } else { 0 },
            }))
        },
    )
}

fn kind() -> impl Strategy<Value = EventKind> {
    let start = (1..=4_u8, any::<[u32; 4]>()).prop_map(|(how, [process, parent, pid, tid])| {
        EventKind::Start { how: StartHow::from_wire(how).unwrap(), process, parent, pid, tid }
    });
    let why = (1..=11_u8).prop_filter_map("not a reason", GapWhy::from_wire);
    let gap = (why, any::<u64>(), any::<String>()).prop_map(|(why, detail, text)| EventKind::Gap {
        why,
        detail,
        text,
    });
    let signal =
        (any::<u8>(), any::<u64>(), any::<[u8; 16]>()).prop_map(|(signal, handler, some)| {
            let mut info = [0; 48];
            info[..16].copy_from_slice(&some);
            EventKind::Signal { signal, handler, info }
        });
    prop_oneof![
        12 => call(),
        1 => start,
        1 => gap,
        1 => signal,
        1 => state(),
        1 => (any::<u32>(), vec(item(), 0..4)).prop_map(|(tid, data)| EventKind::Image { tid, data }),
        1 => any::<u64>().prop_map(|ns| EventKind::Stall { ns }),
        1 => kernel(),
        1 => kernel_layout(),
        1 => (any::<u32>(), any::<Option<i32>>())
            .prop_map(|(process, status)| EventKind::Exit { process, status }),
        1 => (event_number::MAX + 1..=63_u8, short())
            .prop_map(|(number, body)| EventKind::Unknown(UnknownEvent { number, body })),
    ]
}

fn kernel() -> impl Strategy<Value = EventKind> {
    (any::<u32>(), any::<u32>(), any::<u32>(), short()).prop_map(|(layout, task, flags, values)| {
        EventKind::Kernel(KernelEvent { layout, task, flags, values })
    })
}

fn kernel_layout() -> impl Strategy<Value = EventKind> {
    let field = (any::<String>(), any::<u32>()).prop_map(|(name, size)| {
        let kind = [KernelKind::Unsigned, KernelKind::Signed, KernelKind::Text, KernelKind::Bytes];
        KernelField { c_type: name.clone(), name, kind: kind[size as usize % 4], size }
    });
    let names = (any::<u32>(), any::<String>(), any::<String>());
    let words = (any::<u32>(), any::<bool>(), vec((any::<u64>(), any::<String>()), 0..3))
        .prop_map(|(field, are_flags, all)| KernelWords { field, are_flags, all });
    (names, vec(field, 0..5), vec(words, 0..3)).prop_map(
        |((number, system, name), fields, words)| {
            EventKind::KernelLayout(Box::new(KernelLayout { number, system, name, fields, words }))
        },
    )
}

fn part() -> impl Strategy<Value = Part> {
    let value = prop_oneof![
        number().prop_map(PartValue::Number),
        short().prop_map(PartValue::Bytes),
        vec(proptest::option::of(number().prop_map(BlobId)), 0..4)
            .prop_map(|ids| Part::buffers(&ids).value),
    ];
    (prop_oneof![0..20_u64, Just(u64::MAX >> 1)], value).prop_map(|(id, value)| Part { id, value })
}

/// Returns what may be beside the fields of a kind. Only kinds that are known have later fields.
fn extras(kind: &EventKind) -> impl Strategy<Value = Option<Box<Extras>>> + use<> {
    let later = if kind.row().is_some() { 0..5 } else { 0..1_usize };
    (vec(part(), 0..3), vec(any::<u8>(), later), any::<bool>()).prop_map(
        |(parts, later_fields, some)| {
            let empty = parts.is_empty() && later_fields.is_empty();
            (some && !empty).then(|| Box::new(Extras { parts, later_fields }))
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let kind = kind().prop_flat_map(|kind| (extras(&kind), Just(kind)));
    (0..4_u32, number(), kind).prop_map(|(thread, tsc, (extras, kind))| Event {
        thread,
        tsc,
        kind,
        extras,
    })
}

fn compress() -> impl Strategy<Value = Compress> {
    prop_oneof![
        Just(Compress::Adaptive),
        Just(Compress::Zstd(1)),
        Just(Compress::Lz4),
        Just(Compress::None)
    ]
}

/// Makes all forms of empty content the same.
fn plain(mut event: Event) -> Event {
    let data = match &mut event.kind {
        EventKind::Call(call) => &mut call.data,
        EventKind::Image { data, .. } => data,
        _ => return event,
    };
    for item in data {
        if item.content.is_empty() {
            item.content = Content::Inline(Vec::new());
        }
    }
    event
}

/// Merges events in the order that readers guarantee, the slow way.
fn merged(mut threads: Vec<Vec<Event>>) -> Vec<Event> {
    threads.iter_mut().for_each(|thread| thread.reverse());
    let mut out = Vec::new();
    while let Some(next) = threads
        .iter_mut()
        .filter(|thread| !thread.is_empty())
        .min_by_key(|thread| (thread.last().unwrap().tsc, thread.last().unwrap().thread))
    {
        out.extend(next.pop());
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_events_come_back(
        list in vec((event(), 0..40_u8), 0..200),
        compress in compress(),
        workers in 0..3_usize,
    ) {
        let bytes = write(options(compress, workers), |writer| {
            for (event, then) in &list {
                writer.event(event).unwrap();
                match then {
                    0 => writer.flush().unwrap(),
                    1 => writer.flush_thread(event.thread).unwrap(),
                    _ => {}
                }
            }
        });
        let mut threads = vec![Vec::new(); 4];
        for (event, _) in list {
            threads[event.thread as usize].push(plain(event));
        }
        let trace = open(&bytes);
        prop_assert_eq!(trace.preamble(), &sample::preamble());
        prop_assert!(trace.damage().is_empty());
        prop_assert!(trace.completeness().complete);
        prop_assert_eq!(events(&trace), merged(threads));
    }

    #[test]
    fn any_buffers_come_back(
        list in vec((0..6_u64, 0..200_000_usize), 0..12),
        compress in compress(),
        workers in 0..3_usize,
        remembered in prop_oneof![Just(0_usize), Just(1 << 20)],
    ) {
        let options = trace::WriterOptions { compress, workers, remembered };
        let buffers: Vec<Vec<u8>> =
            list.iter().map(|(seed, len)| sample::noise(*seed, *len)).collect();
        let bytes = write(options, |writer| {
            for (i, bytes) in buffers.iter().enumerate() {
                let call = sample::call(0, [0; 6], i as u64, 0);
                let content = trace::ContentRef::Bytes(bytes);
                let item = trace::DataRef {
                    arg: 1, part: 0, index: 0, flags: 0,
                    true_len: bytes.len() as u64, hash: None, content,
                };
                let call = trace::CallRef {
                    nr: call.nr, flags: 0, site: call.site, nargs: 3, args: call.args,
                    outcome: call.outcome, data: &[item], identities: &[], parts: &[],
                };
                writer.call(1, i as u64, &call).unwrap();
            }
        });
        let trace = open(&bytes);
        let report = trace.verify();
        prop_assert!(report.complete, "{:?}", report);
        for (event, bytes) in events(&trace).iter().zip(&buffers) {
            let EventKind::Call(call) = &event.kind else { panic!("only calls were written") };
            prop_assert_eq!(&trace.content(&call.data[0].content).unwrap(), bytes);
            let hash = xxhash_rust::xxh3::xxh3_128(bytes);
            prop_assert_eq!(trace.content_hash(&call.data[0].content).unwrap(), hash);
        }
    }
}

#[test]
fn everything_comes_back_and_is_complete() {
    for compress in [Compress::Zstd(1), Compress::Lz4, Compress::None] {
        let trace = open(&write(options(compress, 1), sample::everything));
        let report = trace.verify();
        assert!(report.complete, "{report:?}");
        assert_eq!((report.lost, report.calls), (0, 3041));
        let seqs: Vec<u64> = trace.events().filter_map(|event| event.unwrap().seq).collect();
        assert!(seqs.iter().copied().eq(0..3041), "calls are numbered in the order of entry");
    }
}
