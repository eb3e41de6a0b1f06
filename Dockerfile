# The demo in a container whose root may be read-only:
#   docker build -t labeldp . && docker run --read-only --tmpfs /tmp labeldp
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir "$(echo /wheels/labeldp-*.whl)[learn,report]" \
    && useradd --create-home --uid 1000 holder
USER holder
WORKDIR /tmp
CMD ["sh", "-c", "labeldp demo && labeldp release patients.csv --label diagnosis --classes 'heart disease,none' --epsilon 1 --unit patient_id --renumber --drop patient_id,postcode --output shared && labeldp verify shared && labeldp learn shared --output model.safetensors"]
