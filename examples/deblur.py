"""Restore a blurred photograph, with a gradient that was derived by rewriting.

A photograph is blurred as if the camera had moved, and made a little noisy. The blur and its squared error are the
program `deblur.tl`. Its adjoint is derived and printed; the code generated from it drives Nesterov's accelerated
gradient descent until the error is down to the noise. The pictures and the loss go into one figure.

The photograph: Commodore Grace M. Hopper, official portrait of 1984. US Navy, public domain.
Matplotlib ships it as sample data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook
from tqdm import tqdm

import tensorlang as tl

HERE = Path(__file__).parent
KERNEL = 15
NOISE = 0.002  # standard deviation; black is 0 and white is 1


def photograph() -> np.ndarray:
    """The photograph in grey, 256 x 256, from 0 to 1."""
    with cbook.get_sample_data("grace_hopper.jpg") as file:
        colours = plt.imread(file, format="jpg") / 255.0
    grey = colours @ np.array([0.299, 0.587, 0.114])
    halved = grey.reshape(300, 2, 256, 2).mean(axis=(1, 3))
    return halved[10:266].astype(np.float32)


def motion(k: int, angle: float) -> np.ndarray:
    """A k x k kernel that smears along a line at `angle`; it sums to 1."""
    reach = k // 2
    along = np.linspace(0.5 - reach, reach - 0.5, 32 * k)
    rows, columns = reach - along * np.sin(angle), reach + along * np.cos(angle)
    grid = np.arange(k)
    tent_rows = np.maximum(0, 1 - np.abs(grid[:, None] - rows))
    tent_columns = np.maximum(0, 1 - np.abs(grid[:, None] - columns))
    kernel = tent_rows @ tent_columns.T
    return (kernel / kernel.sum()).astype(np.float32)


def blurred(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What the camera records of `x`: each pixel a mean over the kernel, and noise."""
    windows = np.lib.stride_tricks.sliding_window_view(x, c.shape)
    exact = np.einsum("ijab,ab->ij", windows, c)
    return (exact + NOISE * np.random.default_rng(0).standard_normal(exact.shape)).astype(np.float32)


def restore(loss: tl.Function, c: np.ndarray, z: np.ndarray, most: int) -> tuple[np.ndarray, list[float]]:
    """The picture that the gradient descent arrives at, and the loss at each of its steps.

    The kernel is not negative and sums to 1, so blurring lengthens no picture (Young's inequality), the gradient's
    Lipschitz constant is at most 2, and 1/2 is a safe step. Descending further than the noise would fit the noise:
    the descent ends where the loss is what the noise alone would give.
    """
    value_and_grad = tl.value_and_grad(loss, wrt="x")

    @jax.jit
    def step(x: jax.Array, y: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        value, gradient = value_and_grad(y, c, z)
        x_next = y - 0.5 * gradient
        t_next = (1 + jnp.sqrt(1 + 4 * t * t)) / 2
        return x_next, x_next + (t - 1) / t_next * (x_next - x), t_next, value

    x = y = jnp.asarray(np.pad(z, c.shape[0] // 2, mode="edge"))
    t = jnp.float32(1)
    losses: list[float] = []
    with tqdm(total=most, desc="restoring", unit="step") as progress:
        while len(losses) < most and (not losses or losses[-1] > z.size * NOISE**2):
            x, y, t, value = step(x, y, t)
            losses.append(float(value))
            progress.set_postfix(loss=f"{losses[-1]:.3g}", refresh=False)
            progress.update()
        progress.total = len(losses)
    return np.asarray(x), losses


def rms_error(picture: np.ndarray, original: np.ndarray) -> float:
    return float(np.sqrt(np.mean((picture - original) ** 2)))


def psnr(error: float) -> float:
    """The ratio of white to the error, in decibels."""
    return float(-20 * np.log10(error))


def figure(path: Path, pictures: dict[str, np.ndarray], kernel: np.ndarray, losses: list[float], floor: float) -> None:
    """Draw the pictures side by side, the kernel in a corner of the blurred one, and the loss below them."""
    plt.rcParams.update({"font.size": 10, "axes.titlesize": 11, "axes.titlelocation": "left"})
    drawing = plt.figure(figsize=(11, 6.6), dpi=130, layout="constrained")
    rows = drawing.subfigures(2, 1, height_ratios=[2, 1.15])
    panels = rows[0].subplots(1, len(pictures))
    for panel, (title, picture) in zip(panels, pictures.items(), strict=True):
        panel.imshow(picture, cmap="gray", vmin=0, vmax=1)
        panel.set_title(title)
        panel.set_axis_off()
    inset = panels[1].inset_axes((0.02, 0.02, 0.2, 0.2))
    inset.imshow(kernel, cmap="gray")
    inset.set(xticks=[], yticks=[])
    inset.spines[:].set_color("white")
    curve = rows[1].subplots()
    curve.semilogy(np.arange(len(losses)), losses, color="#1f5fa8", linewidth=1.8)
    curve.axhline(floor, color="#b0413e", linewidth=1, linestyle="--")
    curve.annotate("what the noise alone gives", (0, floor), (4, 4), textcoords="offset points", color="#b0413e")
    curve.set(xlabel="step", ylabel="loss", xlim=(0, len(losses) - 1), title="Loss, by Nesterov's gradient descent")
    curve.spines[["top", "right"]].set_visible(False)
    curve.grid(alpha=0.25)
    drawing.savefig(path)
    plt.close(drawing)


def main() -> None:
    options = argparse.ArgumentParser(description="Restore a blurred photograph.")
    options.add_argument("--out", type=Path, default=Path("out/deblur.png"), help="where the figure goes")
    options.add_argument("--arrays", type=Path, help="where the arrays of the program go, as an .npz file")
    options.add_argument("--pictures", type=Path, help="the folder for the pictures one by one, as .jpg files")
    options.add_argument("--steps", type=int, default=200, help="the most steps to take")
    chosen = options.parse_args()

    loss = tl.parse((HERE / "deblur.tl").read_text(), source="deblur.tl")
    derivation = tl.derive(loss, wrt="x")
    print(f"{loss}\n\nits adjoint, derived in {len(derivation.steps)} steps:\n\n{derivation.adjoint}\n")

    original = photograph()
    kernel = motion(KERNEL, np.pi / 6)
    taken = blurred(original, kernel)
    if chosen.arrays:
        np.savez(chosen.arrays, x=np.pad(taken, KERNEL // 2, mode="edge"), c=kernel, z=taken)
    restored, losses = restore(loss, kernel, taken, chosen.steps)

    border = KERNEL // 2
    inner = original[border:-border, border:-border]
    before, after = rms_error(taken, inner), rms_error(restored[border:-border, border:-border], inner)
    h, w = taken.shape
    cost, gradient_cost = (tl.cost(f, h=h, w=w, k=KERNEL) for f in (loss, tl.grad(loss, wrt="x")))

    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    pictures = {
        "Before": inner,
        f"Blurred, {psnr(before):.1f} dB": taken,
        f"Restored, {psnr(after):.1f} dB": restored[border:-border, border:-border],
    }
    figure(chosen.out, pictures, kernel, losses, taken.size * NOISE**2)

    if chosen.pictures:
        for name, picture in zip(("before", "blurred", "restored"), pictures.values(), strict=True):
            path = chosen.pictures / f"{name}.jpg"
            plt.imsave(path, picture, cmap="gray", vmin=0, vmax=1, pil_kwargs={"quality": 88})

    print(f"loss            {losses[0]:.4g} before, {losses[-1]:.4g} after {len(losses)} steps")
    print(f"error (RMS)     {before:.4f} before, {after:.4f} after")
    print(f"PSNR            {psnr(before):.1f} dB before, {psnr(after):.1f} dB after")
    print(f"cost            loss {cost:,}, its gradient {gradient_cost:,}, ratio {gradient_cost / cost:.2f}")
    print(f"figure          {chosen.out}")


if __name__ == "__main__":
    main()
