# exercise: lab1/memory-ledger
# right: slices ranges of rows and pads the flat vector by hand
def ledger(shapes, zero, ranks, rank, convention):
    """Bytes that `rank` holds between two steps, by kind."""
    total = {"all": 0, "rows": 0}
    for shape in shapes:
        inner = 1
        for n in shape[1:]:
            inner *= n
        each = -(-shape[0] // ranks)
        total["all"] += shape[0] * inner
        total["rows"] += len(range(shape[0])[rank * each : (rank + 1) * each]) * inner
    padded = total["all"] + (-total["all"]) % ranks
    piece = total["rows"] if zero == 3 else padded // ranks
    return {
        "optimizer": (convention.master + convention.moments) * (total["all"] if zero < 1 else piece),
        "gradients": convention.gradients * (total["all"] if zero < 2 else piece),
        "parameters": convention.weights * (total["all"] if zero < 3 else piece),
        "total": 0,
    }
