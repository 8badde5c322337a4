"""Other people's savers doing the same work, each in a virtual environment of its own: `PEERS=1 make bench`.

Each runs a plain loop of two steps, the model and the tool, over the same responses and results, saved by its own means
with its own way of asking for durability: LangGraph with `durability="sync"`, DBOS with a step for each.
"""

import operator
import subprocess
import sys
from typing import Annotated, Any

from speed.work import PAGE, response

PACKAGES = {
    "LangGraph SqliteSaver": ["langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2"],
    "LangGraph SqliteSaver, DeltaChannel": ["langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2"],
    "DBOS on SQLite": ["dbos==3.4.0"],
}


def pythons(folder):
    """Return the interpreter for each peer, with its packages installed."""
    found = {}
    for name, packages in PACKAGES.items():
        venv = folder / packages[0].split("==")[0]
        python = venv / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        found[name] = str(python)
    return found


def langgraph(delta):
    def drive(folder, turns, effects, mark):
        from langgraph.channels.delta import DeltaChannel
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import END, START, StateGraph
        from typing_extensions import TypedDict

        def joined(state: list, writes: list) -> list:
            return [*state, *(message for write in writes for message in write)]

        class State(TypedDict):
            log: Annotated[list[Any], DeltaChannel(joined) if delta else operator.add]

        def model(state):
            mark()
            number = len(state["log"]) // 2
            return {"log": [{"answer": response(number, last=number >= turns)}]}

        def act(state):
            call = state["log"][-1]["answer"]["content"][0]
            return {"log": [{"result": {"type": "tool_result", "tool_use_id": call["id"], "content": PAGE}}]}

        def after(state):
            return END if state["log"][-1]["answer"]["stop_reason"] == "end_turn" else "act"

        graph = StateGraph(State)
        graph.add_node("model", model)
        graph.add_node("act", act)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", after)
        graph.add_edge("act", "model")
        with SqliteSaver.from_conn_string(str(folder / "runs.db")) as saver:
            saver.conn.execute("pragma synchronous=full")
            config = {"configurable": {"thread_id": "bench"}, "recursion_limit": 3 * turns + 10}
            graph.compile(checkpointer=saver).invoke({"log": []}, config, durability="sync")

    return drive


def dbos(folder, turns, effects, mark):
    from dbos import DBOS

    DBOS(
        config={"name": "bench", "system_database_url": f"sqlite:///{folder}/runs.db", "console_log_level": "CRITICAL"}
    )

    @DBOS.step()
    def model(number):
        return response(number, last=number >= turns)

    @DBOS.step()
    def act(call):
        return {"type": "tool_result", "tool_use_id": call["id"], "content": PAGE}

    @DBOS.workflow()
    def agent():
        number = 0
        while True:
            mark()
            made = model(number)
            if made["stop_reason"] == "end_turn":
                return
            act(made["content"][0])
            number += 1

    DBOS.launch()
    try:
        agent()
    finally:
        DBOS.destroy()


PEERS = {
    "LangGraph SqliteSaver": langgraph(delta=False),
    "LangGraph SqliteSaver, DeltaChannel": langgraph(delta=True),
    "DBOS on SQLite": dbos,
}
