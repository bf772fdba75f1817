"""The app that Flower starts on a node for every message: it hands bytes to the worker, and its answer back."""

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from hush.network.flower.calling import ask
from hush.network.flower.records import ANSWER, NONCE, TOLD


def answered(message: Message, context: Context) -> Message:
    """What this node's worker says to a message of the server's."""
    told, nonce = message.content[TOLD], message.content[NONCE]
    data = ask(context.node_config, bytes(told["welcome"]), bytes(told["data"]))
    return Message(RecordDict({ANSWER: ConfigRecord({"data": data}), NONCE: nonce}), reply_to=message)


app = ClientApp()
app.query()(answered)
app.train()(answered)
