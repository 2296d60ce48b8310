"""Small programs that do what a new user would try, and fall into what was a trap."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.hostile.shell import Shell


def ran(shell: Shell, program: str) -> Any:
    """What a program printed, as JSON. It has to come to its end."""
    shell.write("app", program)
    run = shell.python("app.py")
    assert run.returncode == 0, run.stderr.decode()
    return json.loads(run.stdout)


def test_jobs_of_two_types_with_the_same_unique_key_are_both_done(shell: Shell) -> None:
    welcome, invoice = ran(
        shell,
        """
        import json

        import penstock


        @penstock.job(queue="mail")
        def welcome(user: str) -> str:
            return "welcome " + user


        @penstock.job(queue="mail")
        def invoice(user: str) -> str:
            return "invoice for " + user


        if __name__ == "__main__":
            each = [job.options(unique="user-7").send("anna") for job in (welcome, invoice)]
            print(json.dumps([job.id for job in each]))
        """,
    )

    worked = shell.run("worker", "run", "app", "--until-empty")

    assert worked.returncode == 0, worked.stderr.decode()
    results = [shell.json("job", "show", job, "-q", "mail")["result"] for job in (welcome, invoice)]
    assert results == ["welcome anna", "invoice for anna"]


def test_a_program_that_forgets_to_await_the_state_of_a_job_is_told(shell: Shell) -> None:
    told = ran(
        shell,
        """
        import asyncio
        import json

        import penstock
        from fastapi import FastAPI
        from fastapi.testclient import TestClient

        api = FastAPI()


        @api.get("/state")
        async def state():
            async with await penstock.aconnect() as ps:
                job = await ps.jobs("mail").add("send")
                return {"state": job.state}


        async def main():
            said = {}
            async with await penstock.aconnect() as ps:
                job = await ps.jobs("mail").add("send")
                said["awaited"] = [await job.state, await job.progress]
                for name, use in {
                    "==": lambda: job.state == "done",
                    "bool": lambda: bool(job.progress),
                }.items():
                    try:
                        said[name] = use()
                    except TypeError as error:
                        said[name] = str(error)
            return said


        said = asyncio.run(main())
        client = TestClient(api, raise_server_exceptions=False)
        said["status"] = client.get("/state").status_code
        print(json.dumps(said))
        """,
    )

    assert told == {
        "awaited": ["ready", None],
        "==": "job.state has not been awaited; write `await job.state`",
        "bool": "job.progress has not been awaited; write `await job.progress`",
        "status": 500,
    }


def test_a_notebook_can_serve_in_a_thread(shell: Shell) -> None:
    result = ran(
        shell,
        """
        import asyncio
        import json
        import threading

        import penstock


        @penstock.job(queue="mail")
        async def send(name: str) -> str:
            return "sent to " + name


        def serve():
            with penstock.connect() as ps:
                penstock.serve(ps, [send], until_empty=True)


        async def cell():
            job = send.send("anna")
            thread = threading.Thread(target=serve)
            thread.start()
            await asyncio.to_thread(thread.join)
            return job.result(0)


        if __name__ == "__main__":
            print(json.dumps(asyncio.run(cell())))
        """,
    )

    assert result == "sent to anna"


def test_an_async_client_on_a_second_loop_says_what_to_do(shell: Shell) -> None:
    told = ran(
        shell,
        """
        import asyncio
        import json

        import penstock


        async def connect():
            ps = await penstock.aconnect()
            await ps.jobs("mail").add("send")
            return ps


        async def send(ps):
            await ps.jobs("mail").add("send")


        first = asyncio.new_event_loop()
        ps = first.run_until_complete(connect())
        try:
            asyncio.run(send(ps))
        except penstock.PenstockError as error:
            print(json.dumps(str(error)))
        first.run_until_complete(ps.close())
        """,
    )

    assert "opened on another event loop" in told
    assert "open one for each loop, inside the function that is given to asyncio.run" in told


def test_a_job_that_may_run_at_most_once_cannot_have_three_attempts(shell: Shell) -> None:
    shell.write(
        "app",
        """
        import penstock


        @penstock.job(queue="mail", at_most_once=True, attempts=3)
        def pay() -> None:
            raise ConnectionError("the bank does not answer")
        """,
    )

    run = shell.run("worker", "run", "app", "--until-empty")

    assert run.returncode == 1
    assert b"at_most_once means one attempt, and attempts is 3" in run.stderr


VALUES = """
import dataclasses
import datetime
import decimal
import enum
import json
import uuid

import penstock
import pydantic


class Size(enum.Enum):
    SMALL = "s"


@dataclasses.dataclass
class Address:
    city: str
    since: datetime.date


class Person(pydantic.BaseModel):
    name: str
    born: datetime.date


@dataclasses.dataclass
class Order:
    at: datetime.datetime
    day: datetime.date
    id: uuid.UUID
    price: decimal.Decimal
    picture: bytes
    size: Size
    address: Address
    person: Person


@penstock.job(queue="orders")
def again(order: Order, price: decimal.Decimal) -> Order:
    return dataclasses.replace(order, price=order.price + price)


@penstock.job(queue="orders", raw=True)
def reverse(data: bytes) -> bytes:
    return data[::-1]


if __name__ == "__main__":
    day = datetime.date(2026, 12, 31)
    order = Order(
        at=datetime.datetime(2026, 12, 31, 23, 59, tzinfo=datetime.UTC),
        day=day,
        id=uuid.UUID(int=7),
        price=decimal.Decimal("0.10"),
        picture=bytes(range(256)),
        size=Size.SMALL,
        address=Address("Bern", day),
        person=Person(name="Anna", born=day),
    )
    job, raw = again.send(order, decimal.Decimal("0.20")), reverse.send(order.picture)
    with penstock.connect() as ps:
        penstock.serve(ps, [again, reverse], until_empty=True)
    expected = dataclasses.replace(order, price=decimal.Decimal("0.30"))
    print(json.dumps([job.result(0) == expected, raw.result(0) == order.picture[::-1]]))
"""


def test_arguments_and_results_are_values_of_every_usual_type(shell: Shell) -> None:
    assert ran(shell, VALUES) == [True, True]
