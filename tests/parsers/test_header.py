"""Headers of vLLM in all their forms, of the native libraries, and the clock that reads their times."""

import pytest

from parsers.events import EngineSettings
from parsers.header import LogClock, Origin, native_head
from tests.parsers.reading import read, utc

MESSAGE = "Using max model len 131072"
"""A record that is told only behind a header: without one it would mean nothing."""
AT = utc(2026, 7, 14, 3, 12, 7)

HEADERS = [
    # header, process, rank, dp_rank, level, time, source line
    pytest.param(
        "\x1b[1;36m(EngineCore pid=318)\x1b[0;0m INFO 07-14 03:12:07 [core.py:76] ",
        ("EngineCore", "", "0", "INFO", AT, "core.py:76"), id="0.10.2: always in cyan"),
    pytest.param("INFO 07-14 03:12:07 [api_server.py:1896] ", ("", "", "0", "INFO", AT, "api_server.py:1896"), id="no process yet"),
    pytest.param("(APIServer pid=1) INFO 07-14 03:12:07 [model.py:1788] ", ("APIServer", "", "0", "INFO", AT, "model.py:1788"), id="0.14 to 0.33"),
    pytest.param("(MainProcess pid=1) WARNING 07-14 03:12:07 [a.py:1] ", ("MainProcess", "", "0", "WARNING", AT, "a.py:1"), id="0.33 before its name"),
    pytest.param("(ApiServer_2 pid=9) INFO 07-14 03:12:07 [a.py:1] ", ("ApiServer_2", "", "0", "INFO", AT, "a.py:1"), id="several API servers"),
    pytest.param("(APIServer_DP1 pid=9) INFO 07-14 03:12:07 [a.py:1] ", ("APIServer_DP1", "DP1", "1", "INFO", AT, "a.py:1"), id="API server of a DP rank"),
    pytest.param("(EngineCore_DP3 pid=9) INFO 07-14 03:12:07 [a.py:1] ", ("EngineCore_DP3", "DP3", "3", "INFO", AT, "a.py:1"), id="engine of a DP rank"),
    pytest.param("(EngineCore_2 pid=9) INFO 07-14 03:12:07 [a.py:1] ", ("EngineCore_2", "", "2", "INFO", AT, "a.py:1"), id="engine by number"),
    pytest.param("(Worker pid=452) INFO 07-14 03:12:07 [a.py:1] ", ("Worker", "", "0", "INFO", AT, "a.py:1"), id="worker before its groups"),
    pytest.param("(Worker_TP3 pid=455) ERROR 07-14 03:12:07 [a.py:1] ", ("Worker_TP3", "TP3", "0", "ERROR", AT, "a.py:1"), id="TP rank"),
    pytest.param("(Worker_TP0_EP0 pid=4) INFO 07-14 03:12:07 [a.py:1] ", ("Worker_TP0_EP0", "TP0_EP0", "0", "INFO", AT, "a.py:1"), id="TP and EP rank"),
    pytest.param(
        "(Worker_DP1_PP0_PCP0_TP3_DCP1_EP7 pid=4) INFO 07-14 03:12:07 [a.py:1] ",
        ("Worker_DP1_PP0_PCP0_TP3_DCP1_EP7", "DP1_PP0_PCP0_TP3_DCP1_EP7", "1", "INFO", AT, "a.py:1"), id="all parts of a rank"),
    pytest.param("INFO 07-14 03:12:07 gpu_model_runner.py:848] ", ("", "", "0", "INFO", AT, "gpu_model_runner.py:848"), id="V0 without bracket"),
    pytest.param(
        "(EngineCore pid=318) DEBUG 07-14 03:12:07 [v1/core/.../sched/scheduler.py:270] ",
        ("EngineCore", "", "0", "DEBUG", AT, "v1/core/.../sched/scheduler.py:270"), id="path at level DEBUG"),
    pytest.param(
        "(EngineCore pid=1315) (RayWorkerWrapper pid=370, ip=192.0.2.16) INFO 07-14 03:12:07 [a.py:1] ",
        ("RayWorkerWrapper", "", "0", "INFO", AT, "a.py:1"), id="Ray within the engine"),
    pytest.param(
        "\x1b[36m(RayWorkerProc pid=370, ip=2001:db8::16)\x1b[0m INFO 07-14 03:12:07 [a.py:1] ",
        ("RayWorkerProc", "", "0", "INFO", AT, "a.py:1"), id="Ray in colour with IPv6"),
    pytest.param("(VllmWorker rank=0 pid=299) INFO 07-14 03:12:07 [a.py:1] ", ("VllmWorker", "", "0", "INFO", AT, "a.py:1"), id="0.9: rank in words"),
    pytest.param("(EngineCore) INFO 07-14 03:12:07 [a.py:1] ", ("EngineCore", "", "0", "INFO", AT, "a.py:1"), id="no pid"),
    pytest.param("decode-0/(APIServer pid=1) INFO 07-14 03:12:07 [a.py:1] ", ("APIServer", "", "0", "INFO", AT, "a.py:1"), id="0.33: prefix of the user first"),
    pytest.param("(APIServer pid=1) decode-0/INFO 07-14 03:12:07 [a.py:1] ", ("APIServer", "", "0", "INFO", AT, "a.py:1"), id="0.32: prefix glued to the level"),
    pytest.param("[pod-7]INFO 07-14 03:12:07 [a.py:1] ", ("", "", "0", "INFO", AT, "a.py:1"), id="prefix of the user alone"),
    pytest.param("(APIServer pid=1) INFO     07-14 03:12:07 [a.py:1] ", ("APIServer", "", "0", "INFO", AT, "a.py:1"), id="padded level"),
    pytest.param("CRITICAL 07-14 03:12:07 [a.py:1] ", ("", "", "0", "CRITICAL", AT, "a.py:1"), id="critical"),
    pytest.param(
        "\x1b[0;36m(APIServer pid=1)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m07-14 03:12:07\x1b[0m \x1b[90m[model.py:273]\x1b[0m ",
        ("APIServer", "", "0", "INFO", AT, "model.py:273"), id="coloured throughout"),
    pytest.param(
        "^[[0;36m(APIServer pid=1)^[[0;0m ^[[32mINFO^[[0m ^[[90m07-14 03:12:07^[[0m ^[[90m[model.py:273]^[[0m ",
        ("APIServer", "", "0", "INFO", AT, "model.py:273"), id="escape byte spelt out"),
    pytest.param(
        "[0;36m(APIServer pid=1)[0;0m [32mINFO[0m [90m07-14 03:12:07[0m [90m[model.py:273][0m ",
        ("APIServer", "", "0", "INFO", AT, "model.py:273"), id="escape byte lost"),
    pytest.param(
        "^[[1;36m(EngineCore pid=318)^[[0;0m INFO 07-14 03:12:07 [core.py:76] ",
        ("EngineCore", "", "0", "INFO", AT, "core.py:76"), id="0.10.2 with the escape byte spelt out"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), HEADERS)
def test_a_header_tells_who_when_and_how_bad(text, expected):
    """Process, rank, DP rank, level, time and source line come out of every form, and the message begins behind it."""
    reading = read(text + MESSAGE + "\n")
    assert reading.events == [EngineSettings({"max_model_len": "131072"})]
    head = reading.heads[0]
    assert (head.origin.process, head.origin.rank, head.origin.dp_rank, head.level, head.time, head.where) == expected
    assert reading.log.levels[head.level] == 1


@pytest.mark.parametrize(
    "text",
    [
        "INFO 07-14 03:12 [a.py:1] ",
        "INFO 7-14 03:12:07 [a.py:1] ",
        "INFO 07-14 03:12:07 a.py ",
        "info 07-14 03:12:07 [a.py:1] ",
        "INFOS 07-14 03:12:07 [a.py:1] ",
        "(APIServer pid=x) INFO 07-14 03:12:07 [a.py:1] ",
        "he said INFO 07-14 03:12:07 [a.py:1] ",
        " INFO 07-14 03:12:07 [a.py:1] ",
    ],
)
def test_what_only_resembles_a_header_is_none(text):
    """A record that hangs on its header is not told behind a torn one, nor behind words before one."""
    assert read(text + MESSAGE + "\n").events == []


@pytest.mark.parametrize(
    ("line", "process", "level"),
    [
        ("INFO:     Application startup complete.", "", "INFO"),
        ("(APIServer pid=1) INFO:     Application startup complete.", "APIServer", "INFO"),
        ("\x1b[32mINFO\x1b[0m:     Application startup complete.", "", "INFO"),
        ("\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO:     Application startup complete.", "APIServer", "INFO"),
        ("(APIServer pid=1) \x1b[32mINFO\x1b[0m:     Application startup complete.", "APIServer", "INFO"),
        ("WARNING:  Application startup complete.", "", "WARNING"),
        ("ERROR:    Application startup complete.", "", "ERROR"),
    ],
)
def test_uvicorn_has_a_header_of_its_own(line, process, level):
    """Its level ends in a colon and is padded; there is no time and no source line."""
    reading = read(line + "\n")
    assert reading.kinds == ["EngineReady"]
    head = reading.heads[0]
    assert (head.origin.process, head.level, head.time, head.where) == (process, level, None, "")


@pytest.mark.parametrize(
    ("line", "level", "time", "where", "message"),
    [
        ("2026-07-14 03:14:54  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): TileLang begins", "INFO", "2026-07-14 03:14:54", "kernel.py:137", "TileLang begins"),
        ("2026-04-27 00:21:32,102 - INFO - autotuner.py:457 - flashinfer.jit: [Autotuner]: x", "INFO", "2026-04-27 00:21:32,102", "autotuner.py:457", "[Autotuner]: x"),
        ("2026-11-29 13:09:43 NIXL INFO    _api.py:405 Backend UCX was instantiated", "INFO", "2026-11-29 13:09:43", "_api.py:405", "Backend UCX was instantiated"),
        ("2026-11-29 13:09:43 NIXL WARNING _api.py:405 x", "WARNING", "2026-11-29 13:09:43", "_api.py:405", "x"),
        ("E1129 13:13:11.832085    2604 nixl_agent.cpp:1437] genNotif: x", "ERROR", "1129 13:13:11.832085", "nixl_agent.cpp:1437", "genNotif: x"),
        ("I0714 03:12:07.000001 7 ucx_backend.cpp:1] x", "INFO", "0714 03:12:07.000001", "ucx_backend.cpp:1", "x"),
        ("F0714 03:12:07.000001 7 src/core/a.cc:1] x", "CRITICAL", "0714 03:12:07.000001", "src/core/a.cc:1", "x"),
        ("[rank0]:[E1206 18:44:12.715298746 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog", "ERROR", "1206 18:44:12.715298746", "ProcessGroupNCCL.cpp:607", "[Rank 0] Watchdog"),
        ("[rank0]:[E ProcessGroupNCCL.cpp:563] [Rank 0] Watchdog", "ERROR", "", "ProcessGroupNCCL.cpp:563", "[Rank 0] Watchdog"),
        ("[rank3]:[E714 03:20:11.402113 455 ProcessGroupNCCL.cpp:685] [Rank 3] Watchdog", "ERROR", "714 03:20:11.402113", "ProcessGroupNCCL.cpp:685", "[Rank 3] Watchdog"),
        ("[W714 03:20:11.402113 455 socket.cpp:200] x", "WARNING", "714 03:20:11.402113", "socket.cpp:200", "x"),
        ("V1103 02:48:08.805986 34281 torch/_dynamo/guards.py:2813] [0/1] x", "DEBUG", "1103 02:48:08.805986", "torch/_dynamo/guards.py:2813", "[0/1] x"),
        ("2025-06-08 21:06:35,733 - INFO - flashinfer.jit: Loading", "INFO", "2025-06-08 21:06:35,733", "", "Loading"),
        ("2026-07-14 03:14:54,201 INFO:Auto-tuning", "INFO", "2026-07-14 03:14:54,201", "", "Auto-tuning"),
        ("[1795957145.699246] [vm:11992:0]     ucp_context.c:1508 UCX  WARN  network device", "WARNING", "", "ucp_context.c:1508", "network device"),
        ("[1754890927.298391] [decode-0:270  :0]    ib_mlx5dv_md.c:1100 UCX  ERROR mlx5_7: x", "ERROR", "", "ib_mlx5dv_md.c:1100", "mlx5_7: x"),
        ("[1795957114.706278] [vm:11078:a]      ucp_worker.c:1997 UCX  INFO    decode-0 self cfg#0 am(tcp/lo)", "INFO", "", "ucp_worker.c:1997", "self cfg#0 am(tcp/lo)"),
        ("[1795957115.591451] [vm:11078:0]          tcp_ep.c:1260 UCX  DIAG  x", "INFO", "", "tcp_ep.c:1260", "x"),
    ],
    ids=["TileLang", "FlashInfer", "NIXL in Python", "NIXL in Python, padded less", "absl", "absl information", "absl fatal", "torch without thread", "torch without time", "torch with rank", "torch", "torch at its most talkative",
         "FlashInfer to 0.2", "TileLang's autotuner", "UCX", "UCX with a short process number", "UCX naming its worker", "UCX diagnosis"],
)  # fmt: skip
def test_a_native_library_has_a_header_of_its_own(line, level, time, where, message):
    """Level, time, source line and the place where the message begins, behind a process prefix as well."""
    for before in ("", "(Worker_TP3 pid=455) "):
        head = native_head(before + line, len(before))
        assert (head.level, head.time, head.where) == (level, time, where)
        assert (before + line)[head.end :] == message


@pytest.mark.parametrize(
    "line", ["2026-07-14 03:14:54 TileLang", "E1129 nixl_agent.cpp:1437] x", "x E1129 13:13:11.832085 2604 a.cpp:1] x", ""]
)
def test_other_text_has_no_native_header(line):
    """Half a header and a header inside a text are none."""
    assert native_head(line, 0) is None


@pytest.mark.parametrize(
    ("line", "process", "epoch"),
    [
        ("[1795957145.699246] [vm:11992:0]     ucp_context.c:1508 UCX  WARN  x", "11992", "1795957145.699246"),
        ("[1754890927.298391] [decode-0:270  :0]    ib_mlx5dv_md.c:1100 UCX  ERROR x", "270", "1754890927.298391"),
        ("E1129 13:13:11.832085    2604 nixl_agent.cpp:1437] x", "2604", ""),
        ("[rank0]:V0925 13:34:27.040958 139966991710016 torch/_dynamo/guards.py:2609] x", "139966991710016", ""),
        ("[rank0]:[E1206 18:44:12.715298746 ProcessGroupNCCL.cpp:607] x", "", ""),
    ],
)
def test_a_native_header_tells_the_ranks_apart(line, process, epoch):
    """By a number, where it has one; UCX's time counts from the epoch whatever the zone of the log."""
    head = native_head(line, 0)
    assert (head.process, head.epoch) == (process, epoch)


def test_workers_of_one_name_are_told_apart_by_what_follows_it():
    """Names alone are not unique: Ray's workers and those before their groups share one."""
    who = {Origin("Worker", f" pid={pid}").who for pid in (452, 453)} | {Origin("Worker_TP0", " pid=452").who}
    assert who == {"Worker pid=452", "Worker pid=453", "Worker_TP0 pid=452"}


# -- the clock ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("07-14 03:12:07", utc(2026, 7, 14, 3, 12, 7)),
        ("02-28 23:59:59", utc(2026, 2, 28, 23, 59, 59)),
        ("1129 13:13:11.832085", utc(2026, 11, 29, 13, 13, 11) + 0.832085),
        ("714 03:20:11.402113", utc(2026, 7, 14, 3, 20, 11) + 0.402113),
        ("2026-07-14 03:14:54", utc(2026, 7, 14, 3, 14, 54)),
        ("2026-04-27 00:21:32,102", utc(2026, 4, 27, 0, 21, 32) + 0.102),
        ("2026-07-14T03:12:07.123456789Z", utc(2026, 7, 14, 3, 12, 7) + 0.123456789),
        ("2026-07-14T03:12:07Z", utc(2026, 7, 14, 3, 12, 7)),
        ("2026-07-14T03:12:07+02:00", utc(2026, 7, 14, 1, 12, 7)),
        ("2026-07-14T03:12:07.5-0530", utc(2026, 7, 14, 8, 42, 7) + 0.5),
        ("2025-01-01T05:00:00+08:00", utc(2024, 12, 31, 21, 0, 0)),
        ("2024-02-29 12:00:00", utc(2024, 2, 29, 12, 0, 0)),
        ("2026-12-31 23:59:60", utc(2027, 1, 1, 0, 0, 0)),
    ],
)
def test_the_clock_reads_every_printed_form(text, expected):
    """With its fraction and zone, UTC where there is none, and the year that it was given where none is printed."""
    assert LogClock(2026).read(text) == pytest.approx(expected, abs=1e-6)


def test_the_year_turns_in_january():
    """Headers have no year: January after December belongs to the next one."""
    clock = LogClock(2026)
    assert [clock.read("12-31 23:59:59"), clock.read("01-01 00:00:01")] == [utc(2026, 12, 31, 23, 59, 59), utc(2027, 1, 1, 0, 0, 1)]


def test_a_late_line_of_december_belongs_to_the_old_year():
    """Processes share a log: a line of December may come after the first of January, and January goes on after it."""
    clock = LogClock(2027)
    times = [clock.read(text) for text in ("01-01 00:00:00", "12-31 23:59:59", "01-01 00:00:01")]
    assert times == [utc(2027, 1, 1), utc(2026, 12, 31, 23, 59, 59), utc(2027, 1, 1, 0, 0, 1)]


def test_a_quiet_half_year_is_no_new_year():
    """From January to July and on to December the year stays."""
    clock = LogClock(2026)
    for month in ("01", "07", "12"):
        assert clock.read(f"{month}-14 00:00:00") == utc(2026, int(month), 14)


def test_two_years_turn_twice():
    """Each January adds a year to the last one seen."""
    clock = LogClock(2026)
    times = [clock.read(f"{month}-01 00:00:00") for month in ("06", "12", "01", "06", "12", "01")]
    assert times[-1] == utc(2028, 1, 1)


def test_a_printed_year_counts_for_the_lines_without_one():
    """A library's full date tells the year of vLLM's headers."""
    clock = LogClock(2020)
    clock.read("2026-07-14 03:12:07")
    assert clock.read("07-14 03:12:08") == utc(2026, 7, 14, 3, 12, 8)


def test_the_29th_of_february_is_a_day_of_a_leap_year():
    """In 2028 it lies a day before March."""
    clock = LogClock(2028)
    assert clock.read("02-29 12:00:00") == utc(2028, 2, 29, 12)
    assert clock.read("03-01 12:00:00") == utc(2028, 3, 1, 12)


IMPOSSIBLE = [
    "13-45 99:99:99",
    "07-14 24:00:00",
    "07-14 03:60:00",
    "07-32 03:12:07",
    "07-00 03:12:07",
    "2026-07-14 25:00:00",
    "1399 13:13:11.8",
    "",
    "yesterday",
    "２6-07-14 03:12:07",
]


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_an_impossible_time_is_the_last_one_read(text):
    """A torn or forged header does not move the clock, and the next line is read as ever."""
    clock = LogClock(2026)
    assert clock.read(text) is None
    clock.read("07-14 03:12:07")
    assert clock.read(text) == utc(2026, 7, 14, 3, 12, 7)
    assert clock.read("07-14 03:12:08") == utc(2026, 7, 14, 3, 12, 8)


@pytest.mark.parametrize(
    "text",
    ["00-00 00:00:00", "2099-13-45 00:00:00", "0000-00-00 00:00:00", "0001-01-01T00:00:00Z"],
    ids=["month 0", "month 13", "year 0", "Go's zero time"],
)
def test_an_impossible_date_does_not_move_the_year(text):
    """What is no time of an engine leaves the year alone."""
    clock = LogClock(2026)
    clock.read("07-14 03:12:07")
    clock.read(text)
    assert clock.read("07-14 03:12:08") == utc(2026, 7, 14, 3, 12, 8)


@pytest.mark.parametrize("text", ["02-30 00:00:00", "04-31 00:00:00", "2026-02-30 00:00:00"])
def test_a_day_that_the_month_lacks_is_no_time(text):
    """It is the last time read, as any other impossible time is."""
    clock = LogClock(2026)
    clock.read("02-01 00:00:00")
    assert clock.read(text) == utc(2026, 2, 1)


def test_each_line_has_the_time_of_its_own_header():
    """Processes print seconds out of order; a header that was seen before changes nothing for the next one."""
    lines = [
        f"INFO 07-14 03:12:{second} [{where}] {MESSAGE}\n"
        for second, where in (("01", "a.py:1"), ("09", "b.py:1"), ("01", "a.py:1"), ("09", "c.py:1"))
    ]
    assert [head.time for head in read("".join(lines)).heads] == [utc(2026, 7, 14, 3, 12, second) for second in (1, 9, 1, 9)]
